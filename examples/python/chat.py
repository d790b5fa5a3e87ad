"""Stream a reply of POST /v1/chat, answer its function calls, and stream the answer. Needs httpx."""

import json
import os
import sys

import httpx

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTIONS = [{"name": "get_weather", "description": "The weather of a city", "parameters": CITY}]


def read_events(response):
    """Yield the JSON of each server-sent event, however the stream is cut into pieces."""
    rest, data = b"", []
    for piece in response.iter_bytes():
        *lines, rest = (rest + piece).split(b"\n")
        for line in (line.removesuffix(b"\r") for line in lines):
            if line.startswith(b"data:"):
                data.append(line[5:])
            elif not line and data:
                yield json.loads(b"\n".join(data))
                data = []


def stream_reply(client, messages):
    """Print a reply as it arrives, and yield its messages."""
    body, event = {"model": "demo", "messages": messages, "functions": FUNCTIONS}, {"type": ""}
    with client.stream("POST", "/v1/chat", json=body) as response:
        if response.status_code != 200:
            sys.exit(f"HTTP {response.status_code}: {response.read().decode()}")
        for event in read_events(response):
            if event["type"] == "message.started":
                print(f"[{event['kind']}]", event["message"].get("function_call", {}).get("name", ""), end=" ")
            elif event["type"] == "message.delta":
                (text,) = event["delta"].values()
                print(text["arguments"] if isinstance(text, dict) else text, end="", flush=True)
            elif event["type"] == "message.completed":
                print()
                yield event["message"]
            elif event["type"] == "response.failed":
                sys.exit(f"\n{event['error']['code']}: {event['error']['message']}")
    if event["type"] != "response.completed":
        sys.exit("\nthe stream was cut off")


def answer_call(call, extra):
    """Call the function, and return the message with its result."""
    result = f"It is 21 °C in {json.loads(call['arguments'])['city']}."
    print("[result]", result)
    return {"role": "function", "name": call["name"], "content": result, "extra": extra}


messages = [{"role": "user", "content": "What is the weather in Paris?"}]
headers = {"authorization": f"Bearer {os.environ.get('PARLEY_API_KEY', 'any')}"}
with httpx.Client(base_url=os.environ["PARLEY_URL"], headers=headers, timeout=60) as client:
    while messages[-1]["role"] != "assistant":
        messages += (reply := list(stream_reply(client, messages)))
        messages += [answer_call(one["function_call"], one["extra"]) for one in reply if "function_call" in one]
