"""Parses calls that are JSON objects with a name and arguments, and arguments that are JSON behind a name."""

import json
import re
from collections.abc import Generator, Sequence
from typing import Any

from msgspec import Struct

from app.chat.template_tokens import BEFORE_ARGUMENTS
from app.steps.tool_parsers.calls import NotACall, OpenCall, TruncatedCall
from app.steps.tool_parsers.cursor import BoolSteps, Steps
from app.steps.tool_parsers.json_scanner import JsonScanner, join_surrogates, loads, to_standard_json
from app.steps.tool_parsers.parser import ParseState

ARGUMENTS = ("arguments", "parameters")
_KNOWN = frozenset((*ARGUMENTS, "name", "tool_name", "type", "id", "tool_call_id"))
_NAMES = frozenset(("name", "tool_name", "function_name", "tool", "function", "recipient_name"))
_OTHER_ARGUMENTS = frozenset(("args", "input", "params", "kwargs", "tool_input"))
"""Keys under which models write the arguments, too, if the value is an object."""
_NAME = re.compile(r"[\w.\-:/]+")
_ID = re.compile(r"(?:functions\.)?(.+?)(?::\d+)?")
_LIMIT = 200
"""The longest text that is read as a name or an id."""
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
            _add_others(r, call)
            return


def _member(r: ParseState, call: OpenCall, closers: Sequence[str]) -> Steps:
    output: list[str] = []
    yield from JsonScanner(r, output.append).read_key()
    key = json.loads("".join(output))
    yield from r.skip_blanks()
    is_known = key in _KNOWN or key == "function" or (key == "input" and call.is_block)
    if r.text[r.pos] != ":" or (call.guessed and not is_known):
        raise NotACall
    r.pos += 1
    yield from r.skip_blanks()
    is_object = r.text[r.pos] == "{"
    if key in ARGUMENTS or (key in _OTHER_ARGUMENTS and is_object and not call.has_arguments):
        yield from read_arguments(r, call, closers, wrapped=True)
        return
    if key == "function" and is_object:
        yield from _members(r, call, closers)
        return
    text, value = yield from _value(r)
    if key in _NAMES and not call.name:
        if not isinstance(value, str) or not value.strip():
            raise NotACall
        name = r.find_name(join_surrogates(value.strip()))
        if call.guessed and name not in r.tools:
            raise NotACall
        call.set_name(name)
    elif key == "type":
        call.is_block = value == "tool_use"
    elif key not in _KNOWN and key not in _NAMES:
        call.others[key] = text


def _add_others(r: ParseState, call: OpenCall) -> None:
    """Take what else an object has for the arguments, if it has none: the one object whose key is the name of a
    function that is offered, or members that are the function's parameters.

    Raises:
        NotACall: the call must be certain, and what the members are is not.
    """
    others, call.others = call.others, {}
    if call.has_arguments or not others:
        return
    keys = [*others]
    if not call.name and len(keys) == 1 and keys[0] in r.tools and others[keys[0]].startswith("{"):
        call.set_name(keys[0])
        call.put(others[keys[0]])
    elif call.name and set(keys) <= _list_parameters(r, call.name):
        members = (f"{json.dumps(key, ensure_ascii=False)}: {others[key]}" for key in keys)
        call.put("{" + ", ".join(members) + "}")
    elif r.strict:
        raise NotACall


def _list_parameters(r: ParseState, name: str) -> frozenset[str]:
    tool = r.tools.get(name)
    parameters = tool.schema.get("parameters") if tool is not None else None
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    return frozenset(properties) if isinstance(properties, dict) else frozenset()


def _value(r: ParseState) -> Generator[None, None, tuple[str, Any]]:
    """Return a value as standard JSON, and the value."""
    output: list[str] = []
    yield from JsonScanner(r, output.append).run()
    text = "".join(output)
    return text, _decode(text)


def _decode(text: str) -> Any:
    """Decode standard JSON.

    Raises:
        NotACall: it has an integer of more than 4,300 digits, or is nested more deeply than Python reads.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise NotACall from exc


class ObjectCalls(Struct, frozen=True):
    """`{"name": …, "arguments": …}`, alone or several in a list."""

    opening: str = ""
    """What opens a list, with its bracket; empty where the list has no marker of its own."""

    def is_next(self, r: ParseState) -> BoolSteps:
        if self.opening:
            return (yield from r.is_at(self.opening))
        if r.text[r.pos] == "[":
            return (yield from r.is_before_object("["))
        return r.text[r.pos] == "{"

    def read(self, r: ParseState, closers: tuple[str, ...]) -> Steps:
        if self.opening:
            r.pos += len(self.opening)
            yield from _array(r)
        elif r.text[r.pos] == "[":
            r.pos += 1
            yield from _array(r)
        else:
            yield from _object(r, closers)


class KeyedCalls(Struct, frozen=True):
    """A list of `{NAME: {…}}`: the name is the key of the arguments."""

    opening: str = ""

    def is_next(self, r: ParseState) -> BoolSteps:
        return r.text[r.pos] == "[" and (yield from r.is_before_object("["))

    def read(self, r: ParseState, closers: tuple[str, ...]) -> Steps:
        r.pos += 1
        while True:
            yield from r.skip_blanks()
            r.pos += 1
            if r.text[r.pos - 1] == "]":
                return
            if r.text[r.pos - 1] == "{":
                yield from _keyed(r, closers)
            elif r.text[r.pos - 1] != ",":
                raise NotACall


def _keyed(r: ParseState, closers: tuple[str, ...]) -> Steps:
    """Read a call behind its opening brace."""
    yield from r.skip_blanks()
    output: list[str] = []
    yield from JsonScanner(r, output.append).read_key()
    call = r.open_call(join_surrogates(json.loads("".join(output))))
    yield from r.skip_blanks()
    if r.text[r.pos] != ":":
        raise NotACall
    r.pos += 1
    yield from read_arguments(r, call, closers, wrapped=True)
    yield from r.skip_blanks()
    if r.text[r.pos] == "}":
        r.pos += 1
    r.complete_call(call)


def _object(r: ParseState, closers: tuple[str, ...]) -> Steps:
    call = r.open_call()
    yield from read_json_call(r, call, closers)
    r.complete_call(call)


def _array(r: ParseState) -> Steps:
    while True:
        yield from r.skip_blanks()
        if r.text[r.pos] in ",]":
            r.pos += 1
            if r.text[r.pos - 1] == "]":
                return
        else:
            yield from _object(r, ())


class NamedCall(Struct, frozen=True):
    """A name, a separator and an object: the arguments. Separators may be missing."""

    opening: str
    separators: tuple[str, ...]
    id_separator: str = ""
    """What stands between the name and an id."""
    is_id: bool = False
    """The name is also the id of the call (Kimi K2's `functions.name:0`)."""
    ends: tuple[str, ...] = ()
    name_opening: str = ""
    """What stands between an id, which comes first, and the name."""

    def is_next(self, r: ParseState) -> BoolSteps:
        if not self.opening:
            return r.text[r.pos] not in "{[<"
        return (yield from r.is_at(self.opening))

    def read(self, r: ParseState, closers: tuple[str, ...]) -> Steps:
        if self.opening:
            yield from r.accept(self.opening)
        yield from r.skip_blanks()
        if self.name_opening:
            yield from r.read_head(self.name_opening, limit=_LIMIT)
        tags = (*self.separators, *([self.id_separator] if self.id_separator else []), "{")
        head, tag = yield from r.read_head(*tags, limit=_LIMIT)
        id_ = head.strip() if self.is_id else ""
        if tag == self.id_separator and tag:
            id_, tag = yield from r.read_head(*self.separators, "{", limit=_LIMIT)
        if tag == "{":
            r.pos -= 1
        name = yield from self._name(r, head, tag)
        call = r.open_call(name, id_.strip())
        yield from skip_before_arguments(r)
        yield from read_arguments(r, call, self.ends or closers)
        r.complete_call(call)
        yield from r.accept_tag("```")

    def _name(self, r: ParseState, head: str, tag: str) -> Generator[None, None, str]:
        """Return the name. DeepSeek V3 writes it in a line behind the separator, with `function` before that."""
        yield from r.skip_blanks()
        name = head.strip()
        if name == "function" and tag != "{" and r.text[r.pos] != "{":
            name, end = yield from r.read_head("\n", "{", limit=_LIMIT)
            r.pos -= end == "{"
            name = name.strip()
        if not name or (tag == "{" and _NAME.fullmatch(name) is None):
            raise NotACall
        if self.is_id and (match := _ID.fullmatch(name)) is not None:
            name = match.group(1)
        return name


class NotedCall(Struct, frozen=True):
    """`[Calling tool: f({…})]` at the end of a reply, of a function that is offered: a server wrote earlier calls so
    into the prompt, and the model goes on like that (raullenchai/Rapid-MLX#225)."""

    opening: str = "[Calling tool:"

    def is_next(self, r: ParseState) -> BoolSteps:
        return (yield from r.is_at(self.opening))

    def read(self, r: ParseState, closers: tuple[str, ...]) -> Steps:
        r.pos += len(self.opening)
        head, _ = yield from r.read_head("(", limit=_LIMIT)
        call = r.open_call(head.strip())
        if call.name not in r.tools:
            raise NotACall
        call.is_held = True
        yield from r.skip_blanks()
        if r.text[r.pos] != ")":
            yield from read_arguments(r, call)
        for bracket in (")", "]"):
            yield from r.expect_tag(bracket)
        if not call.is_object() or not (yield from r.is_before_tag(self.opening)):
            raise NotACall
        r.complete_call(call)


def skip_before_arguments(r: ParseState) -> Steps:
    while (yield from r.accept_tag(*BEFORE_ARGUMENTS)):
        pass
