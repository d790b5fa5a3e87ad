"""Parses calls that are JSON objects with a name and arguments, and the families that write them."""

import json
import re
from collections.abc import Generator, Sequence
from typing import Any

from app.steps.tool_parsers.calls import NotACall, OpenCall, TruncatedCall
from app.steps.tool_parsers.cursor import Steps
from app.steps.tool_parsers.json_scanner import JsonScanner, join_surrogates, loads, to_standard_json
from app.steps.tool_parsers.parser import ParseState

ARGUMENTS = ("arguments", "parameters")
_KNOWN = frozenset((*ARGUMENTS, "name", "type", "id"))
_NAME = re.compile(r"[\w.\-]+")
_MAX_ENCODINGS = 3


def read_arguments(r: ParseState, call: OpenCall, closers: Sequence[str] = (), *, wrapped: bool = False) -> Steps:
    """Read the value of the arguments up to its end.

    An object is emitted while it streams. If it is broken, it ends at one of the closers; `wrapped` means that a brace
    before the closer belongs to the object around the arguments.
    """
    yield from r.skip_blanks()
    if r.text[r.pos] != "{":
        output: list[str] = []
        yield from JsonScanner(r, output.append).run()
        call.put(_unquote("".join(output)))
        return
    try:
        yield from JsonScanner(r, call.put, closers).run()
    except NotACall as error:
        if not call.certain:
            raise
        if not r.rewind_to_doubt(call):
            if isinstance(error, TruncatedCall):
                raise
            yield from _read_broken(r, call, closers, wrapped)


def _read_broken(r: ParseState, call: OpenCall, closers: Sequence[str], wrapped: bool) -> Steps:
    """Read the rest of arguments that are not JSON, unchanged."""
    rest, closer = yield from r.read_until(*closers)
    r.pos -= len(closer)
    rest = rest.rstrip()
    call.put(rest[:-1].rstrip() if wrapped and rest.endswith("}") else rest)


def _unquote(text: str) -> str:
    """Decode arguments that are encoded as a string, perhaps more than once; null and "" become `{}`."""
    value = _decode(text)
    if value is None or value == "":
        return "{}"
    if not isinstance(value, str):
        return text
    inner = value
    try:
        for _ in range(_MAX_ENCODINGS):
            decoded = loads(inner)
            if isinstance(decoded, dict):
                return join_surrogates(to_standard_json(inner))
            if not isinstance(decoded, str):
                break
            inner = decoded
    except NotACall:
        pass
    return join_surrogates(value)


def read_json_call(r: ParseState, call: OpenCall, closers: Sequence[str] = ()) -> Steps:
    """Read one object. If its end is broken but it has a name and arguments, it remains a call."""
    try:
        yield from _members(r, call, closers)
    except NotACall as error:
        if not call.certain or isinstance(error, TruncatedCall):
            raise
        _, closer = yield from r.read_until(*closers)
        if not closer:
            raise TruncatedCall from error
        r.pos -= len(closer)


def _members(r: ParseState, call: OpenCall, closers: Sequence[str]) -> Steps:
    yield from r.skip_blanks()
    if r.text[r.pos] != "{":
        raise NotACall
    r.pos += 1
    while True:
        yield from r.skip_blanks()
        char = r.text[r.pos]
        if char not in "},":
            if call.certain and not (char in "\"'_" or char.isalpha()):
                r.rewind_to_doubt(call)
                return
            yield from _member(r, call, closers)
            continue
        r.pos += 1
        if char == "}":
            return


def _member(r: ParseState, call: OpenCall, closers: Sequence[str]) -> Steps:
    output: list[str] = []
    yield from JsonScanner(r, output.append).read_key()
    key = json.loads("".join(output))
    yield from r.skip_blanks()
    if r.text[r.pos] != ":" or (call.allowed_names is not None and key not in _KNOWN):
        raise NotACall
    r.pos += 1
    if key in ARGUMENTS:
        yield from read_arguments(r, call, closers, wrapped=True)
        return
    value = yield from _value(r)
    if key == "name" and not call.name:
        if (
            not isinstance(value, str)
            or not value.strip()
            or (call.allowed_names is not None and value not in call.allowed_names)
        ):
            raise NotACall
        call.set_name(join_surrogates(value.strip()))


def _value(r: ParseState) -> Generator[None, None, Any]:
    output: list[str] = []
    yield from JsonScanner(r, output.append).run()
    return _decode("".join(output))


def _decode(text: str) -> Any:
    """Decode standard JSON.

    Raises:
        NotACall: it has an integer of more than 4,300 digits, or is nested more deeply than Python reads.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise NotACall from exc


def mistral(r: ParseState) -> Steps:
    """`[TOOL_CALLS][{…}, …]` and `[TOOL_CALLS]name[CALL_ID]id[ARGS]{…}`, and without `[ARGS]`, a special token that
    servers may leave out."""
    while True:
        yield from r.read_prose("[TOOL_CALLS]")
        yield from r.attempt(_mistral_calls(r))


def _mistral_calls(r: ParseState) -> Steps:
    yield from r.skip_blanks()
    if r.text[r.pos] == "[":
        r.pos += 1
        yield from _array(r)
    elif r.text[r.pos] == "{":
        call = r.open_call()
        yield from read_json_call(r, call)
        r.complete_call(call)
    else:
        name, tag = yield from r.read_head("[ARGS]", "[CALL_ID]", "{", limit=200)
        if tag == "{":
            if _NAME.fullmatch(name.strip()) is None:
                raise NotACall
            r.pos -= 1
        id_ = (yield from r.read_head("[ARGS]", limit=200))[0] if tag == "[CALL_ID]" else ""
        call = r.open_call(name.strip(), id_.strip())
        yield from read_arguments(r, call, ("[TOOL_CALLS]",))
        r.complete_call(call)
    yield from r.accept_tag("</s>")


def _array(r: ParseState) -> Steps:
    while True:
        yield from r.skip_blanks()
        if r.text[r.pos] in ",]":
            r.pos += 1
            if r.text[r.pos - 1] == "]":
                return
        else:
            call = r.open_call()
            yield from read_json_call(r, call)
            r.complete_call(call)


def llama_json(r: ParseState) -> Steps:
    """`<|python_tag|>{…}; {…}`, or only the objects if the reply starts with one that names a known function."""
    yield from r.attempt(_llama_calls(r, guess=True), guess=True)
    while True:
        yield from r.read_prose("<|python_tag|>")
        yield from r.attempt(_llama_calls(r, guess=False))


def _llama_calls(r: ParseState, *, guess: bool) -> Steps:
    while True:
        call = r.open_call()
        call.allowed_names = r.tools if guess else None
        yield from read_json_call(r, call)
        r.complete_call(call)
        tag = yield from r.accept_tag(";", "{", "<|eom_id|>", "<|eot_id|>")
        if tag == ";":
            tag = yield from r.accept_tag("{", "<|eom_id|>", "<|eot_id|>")
        if tag != "{":
            return
        r.pos -= 1
