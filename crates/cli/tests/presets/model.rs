//! A model server on loopback: the streaming forms of the Anthropic Messages API and the OpenAI Responses API, just enough of
//! each for an agent that calls tools. What the model says next is decided by how many tool results it was shown.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// What the model does in a turn.
pub(crate) enum Turn {
    /// Has the agent run a command by its shell tool.
    Shell(String),
    /// Says something and is done.
    Say(&'static str),
}

type Turns = dyn Fn(usize) -> Turn + Send + Sync;

#[derive(Default)]
struct Seen {
    requests: Vec<Value>,
    key: Option<String>,
}

pub(crate) struct Model {
    address: String,
    seen: Arc<Mutex<Seen>>,
}

impl Model {
    pub(crate) fn start(turns: impl Fn(usize) -> Turn + Send + Sync + 'static) -> Model {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let turns: Arc<Turns> = Arc::new(turns);
        let shared = Arc::clone(&seen);
        // Ends with the test's process; each connection has its own thread.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (turns, seen) = (Arc::clone(&turns), Arc::clone(&shared));
                std::thread::spawn(move || while answer(&stream, &*turns, &seen).is_some() {});
            }
        });
        Model { address, seen }
    }

    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }

    /// The first request that was to be answered with words or tools.
    pub(crate) fn first_request(&self) -> Value {
        self.seen.lock().unwrap().requests.first().cloned().expect("the model was asked")
    }

    /// The key the agent came with.
    pub(crate) fn key(&self) -> Option<String> {
        self.seen.lock().unwrap().key.clone()
    }
}

/// Answers one request; none when the connection has ended.
fn answer(stream: &TcpStream, turns: &Turns, seen: &Mutex<Seen>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    // Through a proxy, later requests of a connection may name the whole address.
    let target = line.split(' ').nth(1)?;
    let path =
        target.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..])).unwrap_or(target);
    let path = path.to_owned();
    let (mut length, mut key) = (0, None);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "x-api-key" => key = Some(value.to_owned()),
            "authorization" => key = value.strip_prefix("Bearer ").map(str::to_owned),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let request: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let events = match path.split('?').next()? {
        "/v1/messages" => messages(&request, turns),
        "/v1/responses" => responses(&request, turns),
        _ => return reply(stream, "404 Not Found", "application/json", "{}"),
    };
    {
        let mut seen = seen.lock().unwrap();
        seen.requests.push(request);
        seen.key = key.or_else(|| seen.key.take());
    }
    let text: String = events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()))
        .collect();
    reply(stream, "200 OK", "text/event-stream", &text)
}

fn reply(mut stream: &TcpStream, status: &str, kind: &str, body: &str) -> Option<()> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + body).as_bytes()).ok()
}

/// Anthropic Messages, streamed.
fn messages(request: &Value, turns: &Turns) -> Vec<Value> {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    let results = blocks.filter(|block| block["type"] == "tool_result").count();
    let (block, delta, stop) = match turns(results) {
        Turn::Shell(command) => (
            json!({ "type": "tool_use", "id": format!("toolu_{results}"), "name": "Bash", "input": {} }),
            json!({ "type": "input_json_delta", "partial_json": json!({ "command": command }).to_string() }),
            "tool_use",
        ),
        Turn::Say(words) => (
            json!({ "type": "text", "text": "" }),
            json!({ "type": "text_delta", "text": words }),
            "end_turn",
        ),
    };
    vec![
        json!({ "type": "message_start", "message": {
            "id": format!("msg_{results}"), "type": "message", "role": "assistant", "model": request["model"],
            "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": { "input_tokens": 100, "output_tokens": 1 },
        } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null },
            "usage": { "output_tokens": 20 } }),
        json!({ "type": "message_stop" }),
    ]
}

/// OpenAI Responses, streamed.
fn responses(request: &Value, turns: &Turns) -> Vec<Value> {
    let input = request["input"].as_array().cloned().unwrap_or_default();
    let results = input.iter().filter(|item| item["type"] == "function_call_output").count();
    let item = match turns(results) {
        Turn::Shell(command) => json!({
            "type": "function_call", "id": format!("fc_{results}"), "call_id": format!("call_{results}"),
            "name": "exec_command", "arguments": json!({ "cmd": command }).to_string(),
        }),
        Turn::Say(words) => json!({
            "type": "message", "id": format!("msg_{results}"), "role": "assistant",
            "content": [{ "type": "output_text", "text": words }],
        }),
    };
    let id = format!("resp_{results}");
    vec![
        json!({ "type": "response.created", "response": { "id": id } }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": { "id": id, "output": [item], "usage": {
            "input_tokens": 100, "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": 20, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 120,
        } } }),
    ]
}
