"""Requests with the mistakes of newcomers, each in the form of every endpoint, and what the gateway answers.

`python -m tests.api.mistaken_requests` writes the answers to `mistaken_requests.txt`: read the difference before it is
committed. Warnings and messages are whole.
"""

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.in_process_gateway import Answer, ModelServer, Running

Json = dict[str, Any]
PAGE = Path(__file__).with_suffix(".txt")
PATHS = {
    "chat": "/v1/chat",
    "completions": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
"""`chat` has the format of Qwen-Agent; its other formats are those of the other endpoints."""
QUESTION = {"role": "user", "content": "Hi"}
BODIES: dict[str, Json] = {
    "chat": {"model": "m", "messages": [QUESTION], "stream": False},
    "completions": {"model": "m", "messages": [QUESTION]},
    "responses": {"model": "m", "input": "Hi", "store": False},
    "messages": {"model": "m", "messages": [QUESTION], "max_tokens": 100},
}
SETTINGS: Json = {
    "upstreams": {"local": {"base_url": "http://model.test/v1"}},
    "models": {
        "m": {"upstreams": ["local"], "profile": {"media": ["image"], "inline_media": ["image"]}},
        "qwen-max": {"upstreams": ["local"]},
    },
}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # one pixel
SVG = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciPjxjaXJjbGUgcj0iNSIvPjwvc3ZnPg=="
FUNCTION = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}
TOOLS: dict[str, Json] = {
    "chat": FUNCTION,
    "completions": {"type": "function", "function": FUNCTION},
    "responses": {"type": "function", **FUNCTION},
    "messages": {"name": "f", "description": "d", "input_schema": FUNCTION["parameters"]},
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def everywhere(**fields: Any) -> dict[str, Json]:
    """These fields at the top level of each body."""
    return {endpoint: {**copy.deepcopy(body), **fields} for endpoint, body in BODIES.items()}


def params(**fields: Any) -> dict[str, Json]:
    """These parameters where each endpoint has them."""
    bodies = everywhere(**fields)
    return bodies | {"chat": {**BODIES["chat"], "generate_cfg": fields}}


def without(*names: str, **fields: Any) -> dict[str, Json]:
    return {
        endpoint: {key: value for key, value in body.items() if key not in names} | fields
        for endpoint, body in BODIES.items()
    }


def conversation(messages: Any, **fields: Any) -> dict[str, Json]:
    """The same messages everywhere."""
    return {
        endpoint: {**body, ("input" if endpoint == "responses" else "messages"): messages}
        for endpoint, body in everywhere(**fields).items()
    }


def content(value: Any) -> dict[str, Json]:
    """The same content of a user message everywhere."""
    return conversation([{"role": "user", "content": value}])


def image(url: str) -> dict[str, Json]:
    """An image in the form of each endpoint."""
    parts: dict[str, Json] = {
        "chat": {"image": url},
        "completions": {"type": "image_url", "image_url": {"url": url}},
        "responses": {"type": "input_image", "image_url": url},
        "messages": {"type": "image", "source": {"type": "url", "url": url}},
    }
    return {endpoint: content([part])[endpoint] for endpoint, part in parts.items()}


def called(arguments: Any, result: Any = "1") -> dict[str, Json]:
    """A call with its result in the form of each endpoint."""
    function = {"name": "f", "arguments": arguments}
    call = {"id": "c1", "type": "function", "function": function}
    use = {"type": "tool_use", "id": "c1", "name": "f", "input": arguments}
    histories: dict[str, list[Json]] = {
        "chat": [
            {"role": "assistant", "content": "", "function_call": function},
            {"role": "function", "name": "f", "content": result},
        ],
        "completions": [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": result},
        ],
        "responses": [
            {"type": "function_call", "call_id": "c1", **function},
            {"type": "function_call_output", "call_id": "c1", "output": result},
        ],
        "messages": [
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": result}]},
        ],
    }
    return {
        endpoint: conversation([QUESTION, *history], tools=[TOOLS[endpoint]])[endpoint]
        for endpoint, history in histories.items()
    }


def choice(value: Any) -> dict[str, Json]:
    bodies = {endpoint: {**BODIES[endpoint], "tools": [tool], "tool_choice": value} for endpoint, tool in TOOLS.items()}
    return bodies | {"chat": {**BODIES["chat"], "tools": [FUNCTION], "generate_cfg": {"tool_choice": value}}}


def raw(body: str | bytes) -> dict[str, bytes]:
    return dict.fromkeys(BODIES, body.encode() if isinstance(body, str) else body)


OPENAI_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ANTHROPIC_CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]}

MISTAKES: dict[str, dict[str, Any]] = {
    # media
    "an image as base64 alone": image(PNG),
    "an image as base64 alone, of a type that its bytes do not show": image(SVG),
    "an image as a path": image("/home/me/cat.png"),
    "an image as a path of Windows": image("C:\\Users\\me\\cat.png"),
    "an image as a file URL": image("file:///home/me/cat.png"),
    "an image as a URL without its scheme": image("www.example.com/cat.png"),
    "an image without a URL": image(""),
    "an image that is none": image("data:image/png;base64,PGh0bWw+PC9odG1sPg=="),
    "an image with damaged base64": image("data:image/png;base64,x$$"),
    "an image at a URL that may not be fetched": image("http://127.0.0.1:9/cat.png"),
    # content
    "OpenAI's image part": content([{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]),
    "Anthropic's image block": content(
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]
    ),
    "Responses' image part": content([{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}]),
    "Qwen-Agent's image item": content([{"image": f"data:image/png;base64,{PNG}"}]),
    "Anthropic's document block": content([{"type": "document", "source": {"type": "text", "data": "x"}}]),
    "content as a list of texts": content(["Hi"]),
    "content as one part": content({"type": "text", "text": "Hi"}),
    "content as a number": content(5),
    "content as null": content(None),
    "a part without its type": content([{"text": "Hi"}]),
    "a text part with its text under content": content([{"type": "text", "content": "Hi"}]),
    "a part of an unknown type": content([{"type": "img", "url": "https://example.com/a.png"}]),
    # messages
    "messages as a text": conversation("Hi"),
    "messages as one message": conversation(QUESTION),
    "no message": conversation([]),
    "messages as null": conversation(None),
    "messages as texts": conversation(["Hi"]),
    "messages as pairs": conversation([["user", "Hi"]]),
    "a message without a role": conversation([{"content": "Hi"}]),
    "the role human": conversation([{"role": "human", "content": "Hi"}]),
    "the role ai": conversation([QUESTION, {"role": "ai", "content": "Hi"}, QUESTION]),
    "the role User": conversation([{"role": "User", "content": "Hi"}]),
    "the role tool without an id": conversation([QUESTION, {"role": "tool", "content": "1"}]),
    "a message of ShareGPT": conversation([{"from": "human", "value": "Hi"}]),
    "a message of LangChain": conversation([{"type": "human", "content": "Hi"}]),
    "a message of Gemini": conversation([{"role": "user", "parts": [{"text": "Hi"}]}]),
    "a message with contents": conversation([{"role": "user", "contents": "Hi"}]),
    "a message without content": conversation([{"role": "user"}]),
    "OpenAI's calls and results": conversation(
        [
            QUESTION,
            {"role": "assistant", "content": "", "tool_calls": [OPENAI_CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
        ]
    ),
    "Anthropic's calls and results": conversation(
        [
            QUESTION,
            ANTHROPIC_CALL,
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "1"}]},
        ]
    ),
    "Responses' calls and results": conversation(
        [
            QUESTION,
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "1"},
        ]
    ),
    "a call without its function": conversation(
        [QUESTION, {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "name": "f", "arguments": "{}"}]}]
    ),
    "arguments as an object": called({"a": 1}),
    "arguments as a list": called([1]),
    "arguments as null": called(None),
    "a result as an object": called("{}", {"degrees": 20}),
    "a result as a number": called("{}", 20),
    # names of fields
    "messages at an endpoint that has input": without("messages", "input", messages=[QUESTION]),
    "input at an endpoint that has messages": without("messages", "input", input="Hi"),
    "prompt": without("messages", "input", prompt="Hi"),
    "neither messages nor input": without("messages", "input"),
    "system": everywhere(system="Be brief."),
    "instructions": everywhere(instructions="Be brief."),
    "a misspelt parameter": params(temprature=0.5),
    "a misspelt parameter beside generate_cfg": everywhere(temprature=0.5),
    "several misspelt parameters": params(temperatur=0.9, max_completion_token=4),
    "a parameter in camel case": params(maxCompletionTokens=10),
    "a misspelt field": everywhere(stram=True),
    "a misspelt list of tools": everywhere(tool=[FUNCTION]),
    "an unknown field": everywhere(foo=1),
    "generate_cfg": everywhere(generate_cfg={"temperature": 0.5}),
    "extra_body": everywhere(extra_body={"top_k": 5}),
    "max_output_tokens": params(max_output_tokens=10),
    "max_completion_tokens": params(max_completion_tokens=10),
    "stop_sequences": params(stop_sequences=["x"]),
    "thinking as a switch": params(thinking=True),
    "reasoning as a word": params(reasoning="low"),
    # values of fields
    "max_tokens in quotes": params(max_tokens="100"),
    "max_tokens of 0": params(max_tokens=0),
    "temperature in quotes": params(temperature="0.5"),
    "temperature below 0": params(temperature=-1),
    "top_p above 1": params(top_p=2),
    "n of 2": params(n=2),
    "stream in quotes": everywhere(stream="true"),
    "stream as a number": everywhere(stream=1),
    "metadata as a text": everywhere(metadata="a"),
    "cache as an unknown word": everywhere(cache="none"),
    "cache as a number": everywhere(cache=0),
    "cache with another key": everywhere(cache={"ttl": 60}),
    "no model": without("model"),
    "a model that is a list": everywhere(model=["m"]),
    "an unknown model": everywhere(model="gpt-4o"),
    "a model with its provider": everywhere(model="openai/m"),
    "no max_tokens": without("max_tokens"),
    # tools
    "OpenAI's tool": everywhere(tools=[TOOLS["completions"]]),
    "Responses' tool": everywhere(tools=[TOOLS["responses"]]),
    "Anthropic's tool": everywhere(tools=[TOOLS["messages"]]),
    "MCP's tool": everywhere(tools=[{"name": "f", "inputSchema": SCHEMA}]),
    "a function alone": everywhere(tools=[FUNCTION]),
    "Gemini's tool": everywhere(tools=[{"functionDeclarations": [FUNCTION]}]),
    "a tool as its name": everywhere(tools=["f"]),
    "tools as one tool": everywhere(tools=TOOLS["completions"]),
    "a tool without a name": everywhere(tools=[{"type": "function", "function": {"parameters": SCHEMA}}]),
    "a schema as a text": everywhere(tools=[{"type": "function", "function": {"name": "f", "parameters": "{}"}}]),
    "a tool that the provider runs": everywhere(tools=[{"type": "code_interpreter"}]),
    "functions": everywhere(functions=[FUNCTION]),
    "OpenAI's tool choice": choice({"type": "function", "function": {"name": "f"}}),
    "Anthropic's tool choice": choice({"type": "tool", "name": "f"}),
    "a tool choice that is a name": choice("f"),
    "a choice of an unknown tool": choice({"type": "function", "function": {"name": "g"}}),
    "a tool choice that is true": choice(True),
    # formats of the reply
    "response_format as a word": params(response_format="json"),
    "response_format of type json": params(response_format={"type": "json"}),
    "response_format that is a schema": params(response_format=SCHEMA),
    "response_format without a schema": params(response_format={"type": "json_schema"}),
    "response_format with the schema in place of json_schema": params(
        response_format={"type": "json_schema", "json_schema": SCHEMA}
    ),
    "response_format in Responses' form": params(
        response_format={"type": "json_schema", "name": "r", "schema": SCHEMA}
    ),
    "response_format without a type": params(response_format={"json_schema": {"name": "r", "schema": SCHEMA}}),
    "response_format with a schema that is a text": params(
        response_format={"type": "json_schema", "json_schema": {"name": "r", "schema": "{}"}}
    ),
    # the body
    "an empty body": raw(""),
    "a body that is a list": raw("[]"),
    "a body that was encoded twice": raw(json.dumps(json.dumps({"model": "m"}))),
    "a trailing comma": raw('{"model": "m", "messages": [],}'),
    "a missing comma": raw('{"model": "m" "messages": []}'),
    "single quotes": raw("{'model': 'm'}"),
    "a value in single quotes": raw("{\"model\": 'm'}"),
    "True of Python": raw('{"model": "m", "stream": True}'),
    "a comment": raw('{"model": "m" // the model\n}'),
    "a form": raw("model=m&messages=Hi"),
    "a byte order mark": raw(b'\xef\xbb\xbf{"model": "m"}'),
    "UTF-16": raw('{"model": "m"}'.encode("utf-16")),
    "Latin-1": raw(b'{"model": "m\xe9"}'),
    "a cut body": raw('{"model": "m", "messages": ['),
}

HEADERS: dict[str, Callable[[Running, str], Answer]] = {
    "GET instead of POST": lambda gateway, endpoint: gateway.get(PATHS[endpoint]),
    "a content type that is not JSON": lambda gateway, endpoint: gateway.post(
        PATHS[endpoint], BODIES[endpoint], {"content-type": "text/plain"}
    ),
    "a compression that is unknown": lambda gateway, endpoint: gateway.post(
        PATHS[endpoint], BODIES[endpoint], {"content-encoding": "br"}
    ),
}
"""Requests that are mistaken outside their bodies."""


def write_page() -> str:
    """Return what the gateway answers to each mistake, with the endpoints that answer the same together."""
    with Running(SETTINGS, ModelServer()) as gateway:
        asked: dict[str, Callable[[str], Answer]] = {
            name: lambda endpoint, bodies=bodies: gateway.post(PATHS[endpoint], bodies[endpoint])  # type: ignore[misc]
            for name, bodies in MISTAKES.items()
        }
        asked |= {
            name: lambda endpoint, ask=ask: ask(gateway, endpoint)  # type: ignore[misc]
            for name, ask in HEADERS.items()
        }
        return "\n".join(_describe(name, ask) for name, ask in asked.items())


def _describe(name: str, ask: Callable[[str], Answer]) -> str:
    endpoints: dict[str, list[str]] = {}
    for endpoint in PATHS:
        endpoints.setdefault("\n    ".join(_list_lines(ask(endpoint))), []).append(endpoint)
    rows = (f"  {', '.join(names)}:\n    {text}\n" for text, names in endpoints.items())
    return f"{name}\n{''.join(rows)}"


def _list_lines(answer: Answer) -> Iterator[str]:
    """Yield the status with the message and the other violations, or with the warnings."""
    if answer.status == 200:
        warnings = json.loads(answer.headers.get("x-parley-warnings", "[]"))
        yield "200"
        yield from (f"warning: {text}" for text in warnings)
        return
    error = answer.json["error"]
    yield f"{answer.status} {error['message']}"
    yield from (f"also: {one['param']}: {one['message']}" for one in error.get("violations", [])[1:])


def read_page() -> str:
    return PAGE.read_text(encoding="utf-8")


BARE = re.compile(r"(: is required|: is not a known key|: must be an object|: is not valid|: must be a JSON schema)$")
"""The end of a message that says what is wrong, and not what to do."""

if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
