"""Calls that are JSON objects with a name and arguments, and the families that write them so."""

import json
from collections.abc import Generator, Sequence
from typing import Any

from app.steps.text_tools.cursor import Steps
from app.steps.text_tools.json_text import Transcoder
from app.steps.text_tools.reading import Reading
from app.steps.text_tools.told import Cut, Told, Unreadable
from app.steps.text_tools.values import loads, standard

ARGUMENTS = ("arguments", "parameters")
_KNOWN = frozenset((*ARGUMENTS, "name", "type", "id"))


def arguments(r: Reading, call: Told, closers: Sequence[str] = (), *, wrapped: bool = False) -> Steps:
    """The value that stands for the arguments, up to its own end. An object is told while it comes, also when it
    breaks: then it ends at a closer. `wrapped`: the brace before the closer is not theirs."""
    yield from r.blanks()
    if r.text[r.pos] != "{":
        pieces: list[str] = []
        yield from Transcoder(r, pieces.append).run()
        call.put(_unquoted("".join(pieces)))
        return
    try:
        yield from Transcoder(r, call.put, closers).run()
    except Unreadable as error:
        if not call.certain:
            raise
        if not _rewound(r, call):
            if isinstance(error, Cut):
                raise
            yield from _broken(r, call, closers, wrapped)


def _rewound(r: Reading, call: Told) -> bool:
    """Go back to the closing marker that was taken for a part of a string, if there is one."""
    if r.doubt is None:
        return False
    r.pos, r.doubt = r.doubt[0], None
    call.forget_doubtful()
    return True


def _broken(r: Reading, call: Told, closers: Sequence[str], wrapped: bool) -> Steps:
    """What is left of arguments that are no JSON, as it is."""
    try:
        left, closer = yield from r.until(*closers)
        r.pos -= len(closer)
    except Cut:
        left = r.rest()
    left = left.rstrip()
    call.put(left[:-1].rstrip() if wrapped and left.endswith("}") else left)


def _unquoted(text: str) -> str:
    """Arguments that are encoded twice are decoded once; none are `{}`."""
    value = json.loads(text)
    if value is None or value == "":
        return "{}"
    if not isinstance(value, str):
        return text
    try:
        return standard(value) if isinstance(loads(value), dict) else value
    except Unreadable:
        return value


def json_call(r: Reading, call: Told, closers: Sequence[str] = ()) -> Steps:
    """One object. Whatever its own end may lack, a call that has arguments stays one."""
    try:
        yield from _members(r, call, closers)
    except Unreadable as error:
        if not call.certain or isinstance(error, Cut):
            raise
        _, closer = yield from r.until(*closers)
        r.pos -= len(closer)


def _members(r: Reading, call: Told, closers: Sequence[str]) -> Steps:
    yield from r.blanks()
    if r.text[r.pos] != "{":
        raise Unreadable
    r.pos += 1
    while True:
        yield from r.blanks()
        char = r.text[r.pos]
        if char not in "},":
            if call.certain and not (char in "\"'_" or char.isalpha()):
                _rewound(r, call)
                return
            yield from _member(r, call, closers)
            continue
        r.pos += 1
        if char == "}":
            return


def _member(r: Reading, call: Told, closers: Sequence[str]) -> Steps:
    pieces: list[str] = []
    yield from Transcoder(r, pieces.append).key()
    key = json.loads("".join(pieces))
    yield from r.blanks()
    if r.text[r.pos] != ":" or (call.among is not None and key not in _KNOWN):
        raise Unreadable
    r.pos += 1
    if key in ARGUMENTS:
        yield from arguments(r, call, closers, wrapped=True)
        return
    value = yield from _value(r)
    if key == "name" and not call.name:
        if not isinstance(value, str) or not value.strip() or (call.among is not None and value not in call.among):
            raise Unreadable
        call.name = value.strip()


def _value(r: Reading) -> Generator[None, None, Any]:
    pieces: list[str] = []
    yield from Transcoder(r, pieces.append).run()
    try:
        return json.loads("".join(pieces))
    except (ValueError, RecursionError) as exc:
        raise Unreadable from exc


def mistral(r: Reading) -> Steps:
    """`[TOOL_CALLS][{…}, …]` and `[TOOL_CALLS]name[CALL_ID]id[ARGS]{…}`."""
    while True:
        yield from r.prose("[TOOL_CALLS]")
        yield from r.attempt(_mistral_calls(r))


def _mistral_calls(r: Reading) -> Steps:
    yield from r.blanks()
    if r.text[r.pos] == "[":
        r.pos += 1
        yield from _array(r)
    elif r.text[r.pos] == "{":
        call = r.open()
        yield from json_call(r, call)
        call.finish()
    else:
        name, tag = yield from r.until("[ARGS]", "[CALL_ID]", limit=200)
        id_ = (yield from r.until("[ARGS]", limit=200))[0] if tag == "[CALL_ID]" else ""
        call = r.open(name.strip(), id_.strip())
        yield from arguments(r, call, ("[TOOL_CALLS]",))
        call.finish()
    yield from r.swallow("</s>")


def _array(r: Reading) -> Steps:
    while True:
        yield from r.blanks()
        if r.text[r.pos] in ",]":
            r.pos += 1
            if r.text[r.pos - 1] == "]":
                return
        else:
            call = r.open()
            yield from json_call(r, call)
            call.finish()


def llama_json(r: Reading) -> Steps:
    """`<|python_tag|>{…}; {…}`, or the objects alone when the reply begins with one that names a function."""
    yield from r.attempt(_llama_calls(r, guess=True), guess=True)
    while True:
        yield from r.prose("<|python_tag|>")
        yield from r.attempt(_llama_calls(r, guess=False))


def _llama_calls(r: Reading, *, guess: bool) -> Steps:
    while True:
        call = r.open()
        call.among = r.tools if guess else None
        yield from json_call(r, call)
        call.finish()
        tag = yield from r.swallow(";", "{", "<|eom_id|>", "<|eot_id|>")
        if tag == ";":
            tag = yield from r.swallow("{", "<|eom_id|>", "<|eot_id|>")
        if tag != "{":
            return
        r.pos -= 1
