//! Models behind a Chat Completions endpoint, against a server that speaks its wire format, errors included.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::server::{Server, reply};
use crate::world::{Case, World, identity, reason};

pub(crate) const CASES: &[Case] = &[
    ("a_model_is_offered_what_the_call_allows", offered),
    ("payloads_follow_their_schema_where_there_is_one", schemas),
    ("a_models_answer_is_unwrapped_and_judged", unwrapped),
    ("a_models_bad_answers_say_why", bad),
    ("rate_limits_are_waited_out_within_the_timeout", rate_limits),
    ("provider_limits_fall_back_to_validation", provider_limits),
];

/// The answer that a model writes.
fn content() -> Value {
    json!({
        "status": "succeeded", "message": "", "artifacts": [
            { "type": "site_plan", "payload": "{\"pages\":[\"home\"]}", "dependsOn": ["L2", "L1"] },
        ],
    })
}

/// What the endpoint wraps around it.
fn completion(content: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1741569952, "model": "small-2025",
        "choices": [{
            "index": 0, "logprobs": null, "finish_reason": "stop",
            "message": { "role": "assistant", "content": content, "refusal": null, "annotations": [] },
        }],
        "usage": { "prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29 },
    })
}

fn table(server: &Server, more: &str) -> String {
    format!("kind = 'openai'\nbase_url = 'http://{}/v1/'\nmodel = 'small'\n{more}", server.address)
}

/// What the server was sent first.
fn sent(server: &Server) -> Value {
    serde_json::from_str(&server.seen()[0].body).unwrap()
}

fn offered() {
    let world = World::new();
    world.write("key", "sk-a-key-in-a-file\n");
    let server = Server::saying("200 OK", completion(&content().to_string()).to_string());
    let call = world.call(&table(&server, "key = { file = 'key' }\ninstructions = 'Be brief.'"));
    let answer: Value = serde_json::from_str(&call.answer.as_ref().unwrap().to_json()).unwrap();
    assert_eq!(answer["executionId"], "exec-001");
    let artifact = &answer["artifacts"][0];
    assert_eq!(artifact["payload"], json!({ "pages": ["home"] }));
    assert_eq!(artifact["dependsOnLedgerIds"], json!(["led-100", "led-200"]));
    assert_eq!(artifact["metadata"]["model"], "small-2025");
    assert_eq!(call.tokens_used, Some(29.0));
    let url = format!("http://{}/v1/", server.address);
    let expected =
        json!({ "name": "a@1", "kind": "openai", "sandbox": "remote", "url": url, "model": "small" });
    assert_eq!(identity(&call), expected);
    assert_eq!(call.diagnostics, "");

    let seen = &server.seen()[0];
    assert_eq!(seen.line, "POST /v1/chat/completions HTTP/1.1\r\n");
    assert_eq!(seen.header("authorization"), Some("Bearer sk-a-key-in-a-file"));
    let sent = sent(&server);
    assert_eq!(sent["model"], "small");
    assert!(sent["messages"][0]["content"].as_str().unwrap().ends_with("\n\nBe brief."));
    let user: Value = serde_json::from_str(sent["messages"][1]["content"].as_str().unwrap()).unwrap();
    assert_eq!(user["lineageAliases"], json!({ "L1": "led-100", "L2": "led-200" }));
    let format = &sent["response_format"];
    assert_eq!((&format["type"], &format["json_schema"]["strict"]), (&json!("json_schema"), &json!(true)));
    let schema = &format["json_schema"]["schema"];
    assert_eq!(schema["$defs"]["alias"]["enum"], json!(["L1", "L2"]));
    let [kind] = &schema["properties"]["artifacts"]["items"]["anyOf"].as_array().unwrap()[..] else {
        panic!("one")
    };
    assert_eq!(kind["properties"]["type"]["enum"], json!(["task", "site_plan"]));
    assert_eq!(kind["properties"]["payload"]["type"], "string");
    assert_eq!(kind["additionalProperties"], false);
}

fn schemas() {
    let world = World::new();
    let schema = json!({ "type": "object", "properties": { "pages": { "type": "array" } } });
    world.write("site.json", &schema.to_string());
    let mut content = content();
    content["artifacts"][0]["payload"] = json!({ "pages": ["home", 1.5] });
    let server = Server::saying("200 OK", completion(&content.to_string()).to_string());
    let call = world.call(&table(&server, "schemas = { site_plan = 'site.json' }"));
    assert!(call.answer.as_ref().unwrap().to_json().contains("{\"pages\":[\"home\",1.5]}"));
    let kinds = &sent(&server)["response_format"]["json_schema"]["schema"]["properties"]["artifacts"]["items"]
        ["anyOf"];
    assert_eq!(kinds[0]["properties"]["type"]["enum"], json!(["site_plan"]));
    assert_eq!(kinds[0]["properties"]["payload"], schema);
    assert_eq!(kinds[1]["properties"]["type"]["enum"], json!(["task"]));
}

fn unwrapped() {
    let world = World::new();
    for text in [format!("```json\n{}\n```", content()), format!("\n```\n{}```\n", content())] {
        let server = Server::saying("200 OK", completion(&text).to_string());
        let call = world.call(&table(&server, ""));
        assert!(call.answer.is_ok(), "{:?}", call.answer);
    }
    // A model that gives up says so in the contract's own words.
    let declined = json!({ "status": "failed", "message": "too little is known", "artifacts": [] });
    let server = Server::saying("200 OK", completion(&declined.to_string()).to_string());
    let answer = world.call(&table(&server, "")).answer.unwrap().to_json();
    assert!(
        answer.contains(r#""error":{"code":"MODEL_DECLINED","message":"too little is known"}"#),
        "{answer}"
    );
}

fn bad() {
    let changed = |pointer: &str, value: Value| {
        let mut content = content();
        *content.pointer_mut(pointer).unwrap() = value;
        completion(&content.to_string())
    };
    let wrapped = |pointer: &str, value: Value| {
        let mut completion = completion(&content().to_string());
        *completion.pointer_mut(pointer).unwrap() = value;
        completion
    };
    let cases = [
        (
            changed("/artifacts/0/dependsOn", json!(["L3"])),
            "artifact 0 of the model: `L3` is not an alias that was given",
        ),
        (changed("/artifacts/0/dependsOn", json!(["led-100"])), "`led-100` is not an alias"),
        (changed("/artifacts/0/dependsOn", json!(["L0"])), "`L0` is not an alias"),
        (changed("/artifacts/0/dependsOn", json!([])), "the answer breaks its contract"),
        (changed("/artifacts/0/type", json!("copy")), "`copy` is not among the allowed artifact types"),
        (changed("/artifacts/0/payload", json!("[1]")), "its payload is not a JSON object"),
        (changed("/artifacts/0/payload", json!("{\"a\":1,\"a\":2}")), "its payload is not a JSON object"),
        (changed("/artifacts", json!([])), "must hold at least one artifact"),
        (changed("/status", json!("done")), "/status"),
        (completion("Sure! Here is"), "the model's answer does not have the requested form"),
        (completion(" "), "the model's answer is empty"),
        (wrapped("/choices/0/message/content", json!(null)), "the model's answer is empty"),
        (wrapped("/choices/0/message/refusal", json!("I cannot help")), "the model refused: I cannot help"),
        (wrapped("/choices/0/finish_reason", json!("length")), "cut off at its token limit"),
        (wrapped("/choices/0/finish_reason", json!("content_filter")), "held back by a content filter"),
        (wrapped("/choices", json!([])), "holds no choice"),
        (json!({ "error": "no" }), "is not a chat completion"),
    ];
    let world = World::new();
    for (body, expected) in cases {
        let call = world.call(&table(&Server::saying("200 OK", body.to_string()), ""));
        assert!(reason(&call).contains(expected), "{expected}: {}", reason(&call));
    }
    let error = json!({ "error": { "message": "Incorrect API key", "type": "invalid_request_error" } });
    let call = world.call(&table(&Server::saying("401 Unauthorized", error.to_string()), ""));
    assert!(reason(&call).contains("status 401: ") && reason(&call).contains("Incorrect API key"));
    let call = world.call(&table(&Server::saying("200 OK", vec![b' '; 2000]), "max_output_bytes = 1000"));
    assert!(reason(&call).contains("longer than the 1000 bytes allowed"), "{}", reason(&call));
}

fn rate_limits() {
    let world = World::new();
    let asked = AtomicUsize::new(0);
    let good = completion(&content().to_string()).to_string();
    let server = Server::new(move |_, stream| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => reply(stream, "429 Too Many Requests", "retry-after: 0\r\n", b"{}"),
        1 => reply(stream, "503 Service Unavailable", "retry-after: 0\r\n", b""),
        _ => reply(stream, "200 OK", "", good.as_bytes()),
    });
    let call = world.call(&table(&server, ""));
    assert!(call.answer.is_ok(), "{:?}", call.answer);
    assert_eq!(server.seen().len(), 3);
    assert!(call.diagnostics.starts_with("the server answered 429; retrying after 0 s\n"));
    let server =
        Server::new(|_, stream| reply(stream, "429 Too Many Requests", "retry-after: 3600\r\n", b"{}"));
    let call = world.call(&table(&server, "timeout_ms = 60000"));
    assert_eq!(
        reason(&call),
        "the agent did not answer within 60000 ms: the server answered 429 and asked to wait 3600 s"
    );
    let server = Server::new(|_, stream| reply(stream, "429 Too Many Requests", "retry-after: 0\r\n", b"{}"));
    let call = world.call(&table(&server, ""));
    assert!(reason(&call).contains("asked to wait 10 times"), "{}", reason(&call));
}

fn provider_limits() {
    let world = World::new();
    world.write("site.json", &json!({ "type": "object", "description": "x".repeat(3000) }).to_string());
    let server = Server::saying("200 OK", completion(&content().to_string()).to_string());
    let more = "schemas = { site_plan = 'site.json' }\nmax_enum_values = 6\nmax_schema_bytes = 2000";
    let call = world.call(&table(&server, more));
    assert!(call.answer.is_ok(), "{:?}", call.answer);
    let schema = &sent(&server)["response_format"]["json_schema"]["schema"];
    assert_eq!(schema["$defs"]["alias"], json!({ "type": "string" }));
    assert!(schema.to_string().len() < 2000);
    assert!(call.diagnostics.contains("2 aliases are more than `max_enum_values`"), "{}", call.diagnostics);
    assert!(call.diagnostics.contains("larger than `max_schema_bytes`"), "{}", call.diagnostics);
}
