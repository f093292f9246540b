//! `cargo xtask bench contracts`: contracts and decisions against their peers, in one run, on the same documents.

use std::process::{Command, Stdio};

use crealeph_bench::ajv::Ajv;
use crealeph_bench::cedar::Cedar;
use crealeph_bench::documents::{documents, questions};
use crealeph_bench::policy::{self, agreed_verdict};
use crealeph_bench::rego::{Form, Interpreter, Machine, ready};
use crealeph_bench::timing::{Contender, race, ratio, shown};
use crealeph_bench::validation::{JsonSchema, Ours, without_first_key};
use crealeph_bench::{FOLDER, Outcome};

fn main() -> Outcome<()> {
    validation()?;
    allocations()?;
    decisions()
}

fn validation() -> Outcome<()> {
    let documents = documents()?;
    let mut ajv = Ajv::start(&documents)?;
    println!("## Parse and validate, from text\n");
    println!(
        "| document | bytes | ours | jsonschema + serde_json | ajv + JSON.parse | ahead of jsonschema | ahead of ajv |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for (number, document) in documents.iter().enumerate() {
        let (ours, peer) = (Ours::new(document.contract)?, JsonSchema::new(document.contract)?);
        let text = document.text.as_str();
        let broken = without_first_key(text)?;
        for (text, expected) in [(text, true), (broken.as_str(), false)] {
            let verdicts = [ours.judge(text), peer.judge(text), ajv.judge(number, text)?];
            if verdicts != [expected; 3] {
                return Err(format!("{} was judged {verdicts:?}, not {expected}", document.name).into());
            }
        }
        let times = race(&mut [
            Contender::new("ours", || ours.judge(text)),
            Contender::new("jsonschema", || peer.judge(text)),
            Contender::timed("ajv", |iterations| ajv.run(number, iterations)),
        ])?;
        let [ours, jsonschema, ajv] = times.as_slice() else { return Err("a contender is missing".into()) };
        println!(
            "| {} | {} | {} | {} | {} | {} | {} |",
            document.name,
            text.len(),
            shown(*ours),
            shown(*jsonschema),
            shown(*ajv),
            ratio(*jsonschema, *ours),
            ratio(*ajv, *ours)
        );
    }
    Ok(())
}

/// Counted by a program of its own, which is built and run here.
fn allocations() -> Outcome<()> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let manifest = format!("{FOLDER}/Cargo.toml");
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--release", "--manifest-path", &manifest, "--bin", "allocations"])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("`allocations` ended with {}", output.status).into());
    }
    println!("\n## Allocated per document\n");
    println!("| document | ours | jsonschema + serde_json |");
    println!("|---|---:|---:|");
    for line in String::from_utf8(output.stdout)?.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, bytes, calls, their_bytes, their_calls] = fields.as_slice() else {
            return Err(format!("`{line}` has not five fields").into());
        };
        println!("| {name} | {bytes} bytes in {calls} | {their_bytes} bytes in {their_calls} |");
    }
    Ok(())
}

fn decisions() -> Outcome<()> {
    let questions = questions()?;
    let mut verdicts = Vec::new();
    for (_, question) in &questions {
        verdicts.push(agreed_verdict(question)?);
    }
    println!("\n## Policy decision, inputs ready\n");
    decision_table(&questions, &verdicts, inputs_ready)?;
    println!("\n## Policy decision, from JSON text to JSON text\n");
    decision_table(&questions, &verdicts, text_to_text)
}

/// Prints a row for each question and one for their mean.
fn decision_table(
    questions: &[(String, String)],
    verdicts: &[String],
    times: fn(&str) -> Outcome<Vec<f64>>,
) -> Outcome<()> {
    println!(
        "| question | verdict | ours | regorus, interpreter | regorus, machine | cedar | ahead of regorus | ahead of cedar |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|");
    let mut sums = vec![0.0; 4];
    for ((name, question), verdict) in questions.iter().zip(verdicts) {
        let times = times(question)?;
        print_decision_row(name, verdict, &times)?;
        for (sum, time) in sums.iter_mut().zip(&times) {
            *sum += time / questions.len() as f64;
        }
    }
    print_decision_row("**mean**", "", &sums)
}

fn print_decision_row(name: &str, verdict: &str, times: &[f64]) -> Outcome<()> {
    let [ours, interpreter, machine, cedar] = times else { return Err("a contender is missing".into()) };
    println!(
        "| {name} | {verdict} | {} | {} | {} | {} | {} | {} |",
        shown(*ours),
        shown(*interpreter),
        shown(*machine),
        shown(*cedar),
        ratio(interpreter.min(*machine), *ours),
        ratio(*cedar, *ours)
    );
    Ok(())
}

fn inputs_ready(question: &str) -> Outcome<Vec<f64>> {
    let (ours, cedar) = (policy::Ours::new()?, Cedar::new()?);
    let (mut interpreter, mut machine) = (Interpreter::new(Form::Ready)?, Machine::new(Form::Ready)?);
    let (input, value, request) = (ours.ready(question)?, ready(question)?, cedar.request(question)?);
    race(&mut [
        Contender::new("ours", || ours.decide(&input)),
        Contender::new("regorus interpreter", || interpreter.decide(&value).ok()),
        Contender::new("regorus machine", || machine.decide(&value).ok()),
        Contender::new("cedar", || cedar.decide(&request)),
    ])
}

fn text_to_text(question: &str) -> Outcome<Vec<f64>> {
    let (ours, cedar) = (policy::Ours::new()?, Cedar::new()?);
    let (mut interpreter, mut machine) = (Interpreter::new(Form::Text)?, Machine::new(Form::Text)?);
    race(&mut [
        Contender::new("ours", || ours.answer(question).ok()),
        Contender::new("regorus interpreter", || interpreter.answer(question).ok()),
        Contender::new("regorus machine", || machine.answer(question).ok()),
        Contender::new("cedar", || cedar.answer(question).ok()),
    ])
}
