"""Random sessions of agents: a conversation that is sent again and again, and changed between two requests."""

import copy
import json
from collections.abc import Callable
from typing import Any

import msgspec
from agent_bodies import GEMINI, WRITERS, find_path, make_conversation
from app.formats.request_memory import MIN_BYTES
from hypothesis import strategies as st

Json = dict[str, Any]
Edit = tuple[str, int, int]
"""What is changed, and where."""

DEEP: Any = []
for _ in range(30):
    DEEP = [DEEP]
ODD: list[Any] = [
    {"role": "assistant", "content": "So."},
    {"role": "assistant", "content": [{"type": "text", "text": "And", "what": 1}], "odd": True},
    {"role": "user", "content": "", "nothing": []},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "blob:x"}}]},
    {"role": "user", "content": [{"type": "compaction", "content": "All of it."}]},
    {"role": "tool", "tool_call_id": "none", "content": "?"},
    {"role": "nobody"},
    {"role": "user", "content": "x", "extra": {"deep": DEEP}},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "y", "z": 2}]},
    {"type": "item_reference", "id": "msg_1"},
    {"type": "compaction", "encrypted_content": "x"},
    {"type": "reasoning", "summary": [], "unknown": {"a": 1}},
    "text",
    None,
    7,
]
"""Entries that some format or server refuses, drops or warns of."""
PLAIN: list[Any] = [
    {"role": "assistant", "content": "So."},
    {"role": "user", "content": "Go on — “é”, \u2028, \U0001f600."},
    {"role": "user", "content": [{"type": "text", "text": "Go on."}], "name": "u"},
]
"""Entries that most formats take."""
ODD_CONTENTS: list[Any] = [
    {"role": "model", "parts": [{"text": "So.", "thought_signature": "c2ln", "thoughtSignature": None}]},
    {"role": "model", "parts": [{"text": "And", "what": 1}], "odd": True},
    {"role": "user", "parts": [{"text": ""}], "nothing": []},
    {"role": "user", "parts": [{"file_data": {"file_uri": "gs://x", "mime_type": "image/png"}}]},
    {"role": "user", "parts": {"text": "one"}},
    {"role": "user", "parts": [{"functionResponse": {"name": "none", "response": {"result": "?"}}}]},
    {"role": "model", "parts": [{"functionCall": {"name": "f"}}]},
    {"role": "model", "parts": [{"function_call": {"name": "f", "args": None}}, {"executable_code": {"code": "1"}}]},
    {"role": "system", "parts": [{"text": "Be kind."}]},
    {"parts": [{"text": "x", "part_metadata": {"deep": DEEP}}]},
    {"role": "nobody"},
    {"role": "user", "content": "x"},
    {},
    "text",
    None,
    7,
]
"""The same for Google's API, in both spellings of its fields."""
PLAIN_CONTENTS: list[Any] = [
    {"role": "model", "parts": [{"text": "So."}]},
    {"role": "user", "parts": [{"text": "Go on — “é”, \u2028, \U0001f600."}]},
    {"parts": [{"text": "Go on."}, {"inline_data": {"mime_type": "image/png", "data": "iVBORw0KGgo="}}]},
]
FILL: Json = {"role": "user", "content": "word " * (MIN_BYTES // 5), "type": "message"}
"""A message that makes a body so long that it is remembered."""
FILL_CONTENT: Json = {"role": "user", "parts": [{"text": FILL["content"]}]}
"""The same for Google's API."""
KINDS = (
    *("drop", "swap", "repeat", "insert", "plain", "mark", "unmark", "move marks", "word", "cut", "grow"),
    *("begin", "model", "tool", "drop tool", "swap tools", "mark tool", "system", "parameter"),
    *("value", "entry value", "tool value", "reverse", "reverse entry", "reverse tool", "no number"),
)
EDITS: st.SearchStrategy[list[Edit]] = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 30), st.integers(0, 30)), max_size=4
)
MARK = {"type": "ephemeral"}
EQUAL: list[Any] = [
    1,
    True,
    1.0,
    0,
    False,
    0.0,
    -0.0,
    {"a": 1, "b": 0},
    {"b": 0, "a": 1},
    {"a": True, "b": 0.0},
    [1],
    [1.0],
]
"""Many of them are equal for Python, and no two are the same JSON."""
NO_NUMBERS = (float("nan"), float("inf"), float("-inf"))


def _double(body: Json) -> bytes:
    """With the list of the conversation twice: the last one counts."""
    name, first = _list_name(body), msgspec.json.encode(find_entries(body)[:2])
    return b'{"%b":%b,%b' % (name, first, msgspec.json.encode(body)[1:])


def _nest(body: Json) -> bytes:
    """With the same list within another field, before it."""
    name, entries = _list_name(body), msgspec.json.encode(find_entries(body))
    return b'{"x":{"%b":%b},%b' % (name, entries, msgspec.json.encode(body)[1:])


def _escape_name(body: Json) -> bytes:
    name = _list_name(body)
    return msgspec.json.encode(body).replace(b'"%b":[' % name, b'"%b\\u%04x":[' % (name[:-1], name[-1]), 1)


def _list_name(body: Json) -> bytes:
    return _find_name(body).encode()


def _find_name(body: Json) -> str:
    return next(name for name in ("messages", "input", "contents") if name in body)


def _splice(body: Json, value: bytes) -> bytes:
    """With a value that Python could not write."""
    return msgspec.json.encode(body)[:-1] + b',"x":%b}' % value


FORMS: dict[str, Callable[[Json], bytes]] = {
    "compact": msgspec.json.encode,
    "spaced": lambda body: json.dumps(body).encode(),
    "indented": lambda body: json.dumps(body, indent=1, ensure_ascii=False).encode(),
    "reversed": lambda body: msgspec.json.encode(dict(reversed(body.items()))),
    "sorted": lambda body: json.dumps(body, sort_keys=True).encode(),
    "spaces around": lambda body: b" \n" + msgspec.json.encode(body) + b"\r\n ",
    "two lists": _double,
    "two places": _nest,
    "escaped name": _escape_name,
    "cut": lambda body: msgspec.json.encode(body)[:-7],
    "too long": lambda body: msgspec.json.encode(body) + b"x",
    "beyond a double": lambda body: _splice(body, b"1e999"),
    "beyond 64 bits": lambda body: _splice(body, b"9" * 30),
    "too many digits": lambda body: _splice(body, b"9" * 5000),
    "deep": lambda body: _splice(body, b"[" * 70 + b"]" * 70),
    "too deep": lambda body: _splice(body, b"[" * 250 + b"]" * 250),
    "minus zero": lambda body: _splice(body, b"-0"),
    "half a pair": lambda body: _splice(body, b'"\\udc00"'),
    "half a pair in a key": lambda body: _splice(body, b'{"\\ud800":1}'),
    "byte order mark": lambda body: b"\xef\xbb\xbf" + msgspec.json.encode(body),
    "two keys": lambda body: _splice(body, b'1,"temperature":0.25,"temperature":0.75,"x":true'),
    "surrogate": lambda body: msgspec.json.encode(body).replace(b"word", b"\\ud800", 1),
    "not UTF-8": lambda body: msgspec.json.encode(body).replace(b"word", b"\xff", 1),
}
"""How a body may be written; not all of them are valid."""


_METHODS = {"count_tokens": "countTokens", "stream": "streamGenerateContent?alt=sse"}
"""Of the Gemini API, by the ends of paths."""


def _find_endpoint(path: str) -> str:
    return path if path in WRITERS else path.rpartition("/")[0]


def write_body(path: str, rounds: int, functions: int, seed: int = 0) -> Json:
    """Return a body for an endpoint, for its streams, or for the one that counts the tokens of its bodies."""
    written = WRITERS[_find_endpoint(path)](make_conversation(rounds, functions, seed), "m")
    body = json.loads(written)
    find_entries(body).insert(0, copy.deepcopy(FILL_CONTENT if "contents" in body else FILL))
    assert isinstance(body, dict)
    return body


def set_model(body: Json, path: str, model: str) -> None:
    """Name the model, where that is in the body."""
    if _find_endpoint(path) != GEMINI:
        body["model"] = model


def make_path(path: str, model: str) -> str:
    """Return where a body is sent."""
    method = _METHODS.get(path.rpartition("/")[2])
    if _find_endpoint(path) != GEMINI or method is None:
        return find_path(path, model)
    return f"{GEMINI}/{model}:{method}"


def name_beginning(body: Json, name: str) -> None:
    """Make the first entry another one than that of all other conversations."""
    first = find_entries(body)[0]
    if "parts" in first:
        first["parts"][0]["text"] += name
    else:
        first["content"] += name


def find_entries(body: Json) -> list[Any]:
    """Return the messages, items or contents of a body."""
    entries: list[Any] = body[_find_name(body)]
    return entries


def edit(body: Json, whole: Json, kind: str, first: int, second: int) -> None:
    """Change a body in one way. `whole` is the same conversation when it is longer."""
    entries = find_entries(body)
    at, other = min(1 + first % (len(entries) - 1 or 1), len(entries) - 1), second % len(entries)
    if kind == "drop" and at:
        del entries[at]
    elif kind == "swap" and at and other:
        entries[at], entries[other] = entries[other], entries[at]
    elif kind == "repeat":
        entries.insert(other, copy.deepcopy(entries[at]))
    elif kind == "insert":
        odd = ODD_CONTENTS if "contents" in body else ODD
        entries.insert(at, copy.deepcopy(odd[second % len(odd)]))
    elif kind == "plain":
        plain = PLAIN_CONTENTS if "contents" in body else PLAIN
        entries.append(copy.deepcopy(plain[second % len(plain)]))
    elif kind == "word" and isinstance(entries[at], dict):
        text = f"{first} {second}"
        entries[at] |= {"parts": [{"text": text}]} if "contents" in body else {"content": text}
    elif kind == "cut":
        del entries[max(2, len(entries) - first % 5) :]
    elif kind == "grow":
        entries += copy.deepcopy(find_entries(whole)[len(entries) : len(entries) + 1 + first % 4])
    elif kind == "begin":
        entries[:] = copy.deepcopy(find_entries(whole)[: 2 + first])
    elif kind in ("mark", "unmark", "move marks"):
        _mark(entries, kind, at)
    elif kind == "entry value" and isinstance(entries[at], dict):
        _set_value(entries[at], EQUAL[second % len(EQUAL)])
    elif kind == "reverse entry" and isinstance(entries[at], dict):
        entries[at] = _reverse(entries[at])
    else:
        _edit_fields(body, kind, first, second)


def _set_value(entry: Json, value: Any) -> None:
    """Put a value into the calls of an entry, however they are written, or else into the entry."""
    calls = [one["function"] for one in entry.get("tool_calls", [])]
    calls += [one for one in (entry, entry.get("function_call")) if isinstance(one, dict) and "arguments" in one]
    for call in calls:
        call["arguments"] = json.dumps({"value": value})
    blocks = [block for block in _find_blocks(entry) if block.get("type") == "tool_use"]
    for block in blocks:
        block["input"] = {"value": value}
    google = [part["functionCall"] for part in _find_blocks(entry) if isinstance(part.get("functionCall"), dict)]
    for call in google:
        call["args"] = {"value": value}
    if not calls and not blocks and not google:
        entry["extra"] = {"value": value}


def _reverse(value: Any) -> Any:
    """Return a value whose objects have their members in the other order."""
    if isinstance(value, list):
        return [_reverse(each) for each in value]
    return {name: _reverse(each) for name, each in reversed(value.items())} if isinstance(value, dict) else value


def _mark(entries: list[Any], kind: str, at: int) -> None:
    if kind == "move marks":
        for entry in entries:
            for block in _find_blocks(entry):
                block.pop("cache_control", None)
    for block in _find_blocks(entries[at])[-1:]:
        block["cache_control"] = dict(MARK)
        if kind == "unmark":
            del block["cache_control"]


def _find_blocks(entry: Any) -> list[Json]:
    content = entry.get("content", entry.get("parts")) if isinstance(entry, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _edit_fields(body: Json, kind: str, first: int, second: int) -> None:
    tools = _find_tools(body)
    at, other = (first % len(tools), second % len(tools)) if tools else (0, 0)
    if kind == "model":
        body["model"] = f"m{first}"
    elif kind == "tool" and tools:
        tools[at]["name"] = f"f{second}"
    elif kind == "drop tool" and tools:
        del tools[at]
    elif kind == "swap tools" and tools:
        tools[at], tools[other] = tools[other], tools[at]
    elif kind == "value":
        body[("x", "response_format", "metadata", "chat_template_kwargs")[first % 4]] = EQUAL[second % len(EQUAL)]
    elif kind == "tool value" and tools:
        _find_schema(tools[at])["default"] = EQUAL[second % len(EQUAL)]
    elif kind == "reverse":
        for name in list(body):
            body[name] = _reverse(body.pop(name)) if isinstance(body[name], dict) or second % 2 else body[name]
    elif kind == "reverse tool" and tools:
        tools[at] = _reverse(tools[at])
    elif kind == "no number":
        holder = body if first % 2 or not tools else _find_schema(tools[at])
        holder["x"] = NO_NUMBERS[second % len(NO_NUMBERS)]
    elif kind == "mark tool" and tools:
        tools[at]["cache_control"] = dict(MARK)
    elif kind == "system" and "system" in body:
        body["system"][first % len(body["system"])] = {"type": "text", "text": f"You are {second}."}
    elif kind == "system" and "instructions" in body:
        body["instructions"] = f"You are {second}."
    elif kind == "system" and "systemInstruction" in body:
        body["systemInstruction"]["parts"][first % 2] = {"text": f"You are {second}."}
    elif kind == "parameter":
        body.get("generationConfig", body)["temperature"] = second / 10


def _find_tools(body: Json) -> list[Any]:
    """Return the functions of a body."""
    tools: list[Any] = body["tools"] if "tools" in body else body.get("functions", [])
    return tools[0]["functionDeclarations"] if tools and "functionDeclarations" in tools[0] else tools


def _find_schema(tool: Json) -> Json:
    """Return the schema of a tool, however it is written."""
    function = tool.get("function", tool)
    names = ("parameters", "input_schema", "parametersJsonSchema")
    found: Json = next((function[name] for name in names if function.get(name)), function)
    return found
