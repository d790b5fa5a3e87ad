//! Stream a reply of POST /v1/chat, answer its function calls, and stream the answer.
use serde_json::{json, Value};
use std::env;
use std::error::Error;
use std::io::{stdout, BufRead, BufReader, Write};

/// Prints a reply as it arrives, and returns its messages.
fn stream_reply(messages: &[Value]) -> Result<Vec<Value>, Box<dyn Error>> {
    let city = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let function = json!({"name": "get_weather", "description": "The weather of a city", "parameters": city});
    let response = reqwest::blocking::Client::builder()
        .timeout(None)
        .build()?
        .post(format!("{}/v1/chat", env::var("PARLEY_URL")?))
        .bearer_auth(env::var("PARLEY_API_KEY").unwrap_or_default())
        .json(&json!({"model": "demo", "messages": messages, "functions": [function]}))
        .send()?;
    if !response.status().is_success() {
        return Err(format!("HTTP {}: {}", response.status(), response.text()?).into());
    }
    let (mut reply, mut data) = (Vec::new(), String::new());
    for line in BufReader::new(response).lines() {
        let line = line?;
        if let Some(text) = line.strip_prefix("data:") {
            data.push_str(text);
            data.push('\n');
        } else if line.is_empty() && !data.is_empty() {
            let event: Value = serde_json::from_str(&data)?;
            data.clear();
            let (message, delta) = (&event["message"], &event["delta"]);
            match event["type"].as_str() {
                Some("message.started") => {
                    let name = message["function_call"]["name"].as_str().unwrap_or("");
                    print!("[{}] {name} ", event["kind"].as_str().unwrap_or(""));
                }
                Some("message.delta") => {
                    let texts = [&delta["reasoning_content"], &delta["content"], &delta["function_call"]["arguments"]];
                    print!("{}", texts.iter().find_map(|text| text.as_str()).unwrap_or(""));
                    stdout().flush()?;
                }
                Some("message.completed") => {
                    println!();
                    reply.push(message.clone());
                }
                Some("response.failed") => return Err(event["error"].to_string().into()),
                Some("response.completed") => return Ok(reply),
                _ => {}
            }
        }
    }
    Err("the stream was cut off".into())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut messages = vec![json!({"role": "user", "content": "What is the weather in Paris?"})];
    while messages.last().map_or(true, |last| last["role"] != "assistant") {
        let reply = stream_reply(&messages)?;
        messages.extend(reply.clone());
        for message in reply.iter().filter(|message| message["function_call"].is_object()) {
            let call = &message["function_call"];
            let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap_or("{}"))?;
            let result = format!("It is 21 °C in {}.", arguments["city"].as_str().unwrap_or("?"));
            println!("[result] {result}");
            messages.push(json!({"role": "function", "name": call["name"], "content": result, "extra": message["extra"]}));
        }
    }
    Ok(())
}
