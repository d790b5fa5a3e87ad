"""The same with OpenAI's SDK, which calls POST /v1/chat/completions. Needs openai."""

import json
import os
import sys

from openai import APIError, OpenAI

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "The weather of a city", "parameters": CITY}
TOOLS = [{"type": "function", "function": WEATHER}]


def read_parts(stream):
    """Yield (kind, text) of everything in the stream, and what a call is: (kind, "", call)."""
    for chunk in stream:
        for delta in (choice.delta for choice in chunk.choices):
            if getattr(delta, "reasoning_content", None):
                yield "reasoning_content", delta.reasoning_content, None
            if delta.content:
                yield "content", delta.content, None
            for call in delta.tool_calls or []:
                yield "function_call", call.function.arguments or "", call if call.id else None


def stream_reply(messages):
    """Print a reply as it arrives, and return it as one message."""
    reply, calls, open_kind = {"role": "assistant"}, [], None
    for kind, text, call in read_parts(
        client.chat.completions.create(model="demo", messages=messages, tools=TOOLS, stream=True)
    ):
        if kind != open_kind or call:
            print("\n" if open_kind else "", f"[{kind}] ", f"{call.function.name} " if call else "", sep="", end="")
        if call:
            calls.append({"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": ""}})
        target, key = (calls[-1]["function"], "arguments") if kind == "function_call" else (reply, kind)
        target[key] = target.get(key, "") + text
        print(text, end="", flush=True)
        open_kind = kind
    print()
    return reply | ({"tool_calls": calls} if calls else {})


def answer_call(call):
    """Call the function, and return the message with its result."""
    result = f"It is 21 °C in {json.loads(call['function']['arguments'])['city']}."
    print("[result]", result)
    return {"role": "tool", "tool_call_id": call["id"], "content": result}


client = OpenAI(base_url=f"{os.environ['PARLEY_URL']}/v1", api_key=os.environ.get("PARLEY_API_KEY", "any"))
messages = [{"role": "user", "content": "What is the weather in Paris?"}]
try:
    while messages[-1]["role"] != "assistant":
        messages.append(reply := stream_reply(messages))
        messages += [answer_call(call) for call in reply.get("tool_calls", [])]
except APIError as error:  # an HTTP error, or a failure in the stream
    sys.exit(f"\n{error.code}: {error.message}")
