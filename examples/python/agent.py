"""An agent with a tool and an image, which reads on after a lost connection without losing a token. Needs httpx."""

import base64
import json
import os
import sys
import time
from pathlib import Path

import httpx

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTIONS = [{"name": "get_weather", "description": "The weather of a city", "parameters": CITY}]
IMAGE = "data:image/png;base64," + base64.b64encode(Path("image.png").read_bytes()).decode()
MAX_LOST = 5  # connections that bring nothing new, one after another


def read_events(response):
    """Yield the JSON of each complete server-sent event. An event that was cut is not one."""
    rest, data = b"", []
    for piece in response.iter_bytes():
        *lines, rest = (rest + piece).split(b"\n")
        for line in (line.removesuffix(b"\r") for line in lines):
            if line.startswith(b"data:"):
                data.append(line[5:])
            elif not line and data:
                yield json.loads(b"\n".join(data))
                data = []


def follow_reply(client, body):
    """Yield the events of a reply to its end. After a lost connection it resumes the reply where it stopped."""
    response_id, last, lost = None, 0, 0
    while lost < MAX_LOST:
        # A request that got no answer at all is sent again. One that got an answer has an ID to resume by.
        ask = ("GET", f"/v1/chat/{response_id}/events?after={last}") if response_id else ("POST", "/v1/chat")
        try:
            with client.stream(*ask, json=None if response_id else body) as response:
                if response.status_code != 200:
                    sys.exit(f"HTTP {response.status_code}: {response.read().decode()}")
                response_id = response.headers.get("x-parley-response-id", response_id)
                for event in read_events(response):
                    if event["seq"] > last:
                        last, lost = event["seq"], 0
                    yield event
                    if event["type"] in ("response.completed", "response.failed"):
                        return
        except httpx.TransportError:
            pass
        lost += 1
        time.sleep(0.1 * lost)
    sys.exit("\nthe stream was cut off")


def stream_reply(client, messages):
    """Print a reply as it arrives, and yield its messages."""
    # The call of the model goes on for 30 seconds without a client: the time to come back.
    body = {"model": "demo", "messages": messages, "functions": FUNCTIONS, "cancel_on_disconnect": 30}
    for event in follow_reply(client, body):
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


def answer_call(call, extra):
    """Call the function, and return the message with its result."""
    result = f"It is 21 °C in {json.loads(call['arguments'])['city']}."
    print("[result]", result)
    return {"role": "function", "name": call["name"], "content": result, "extra": extra}


messages = [{"role": "user", "content": [{"image": IMAGE}, {"text": "What is the weather in Paris?"}]}]
headers = {"authorization": f"Bearer {os.environ.get('PARLEY_API_KEY', 'any')}"}
with httpx.Client(base_url=os.environ["PARLEY_URL"], headers=headers, timeout=60) as client:
    while messages[-1]["role"] != "assistant":
        messages += (reply := list(stream_reply(client, messages)))
        messages += [answer_call(one["function_call"], one["extra"]) for one in reply if "function_call" in one]
