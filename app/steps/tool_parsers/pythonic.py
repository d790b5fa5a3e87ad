"""Parses calls as Python writes them, `[f(a=1), g()]`: Llama 4, LFM2, Olmo 3. Values are parsed as literals; no code is
run."""

import ast
import re
from collections.abc import Generator
from typing import Any

from msgspec import Struct

from app.steps.tool_parsers.calls import NotACall
from app.steps.tool_parsers.cursor import BoolSteps, Steps
from app.steps.tool_parsers.json_scanner import write_json
from app.steps.tool_parsers.names import find_offered
from app.steps.tool_parsers.parser import ParseState

_NAME = re.compile(r"[\w.-]+")
"""Python has no `-` in names, but a model writes the name of a function as it is offered."""
_DELIMITERS = re.compile(r"""["'()\[\]{}\\]""")
_CONSTANTS = {"true": True, "false": False, "null": None}
_LONGEST = 200


class PythonCalls(Struct, frozen=True):
    """`[f(a=1), g()]`, or the calls in lines of their own (Olmo 3), in a code block (MiniCPM 3 and 4)."""

    opening: str = ""

    def is_next(self, r: ParseState) -> BoolSteps:
        if r.text[r.pos] == "[":
            return not (yield from r.is_before_object("[")) or (yield from r.is_at("[]"))
        return _NAME.match(r.text[r.pos]) is not None

    def read(self, r: ParseState, closers: tuple[str, ...]) -> Steps:
        if r.text[r.pos] == "[":
            yield from _list(r)
            return
        yield from _call(r)
        while True:
            if (yield from r.accept_tag("```")):
                return
            yield from r.skip_blanks()
            if _NAME.match(r.text[r.pos]) is None:
                return
            yield from _call(r)


def _list(r: ParseState) -> Steps:
    r.pos += 1
    while True:
        yield from r.skip_blanks()
        if r.text[r.pos] == "]":
            r.pos += 1
            return
        yield from _call(r)
        yield from r.skip_blanks()
        if r.text[r.pos] not in ",]":
            raise NotACall
        if r.text[r.pos] == ",":
            r.pos += 1


def _call(r: ParseState) -> Steps:
    name = find_offered((yield from _name(r)), r.tools)
    if name is None:
        raise NotACall
    source = yield from _parenthesis(r)
    call = r.open_call(name)
    call.put(write_json(_keywords(source)))
    r.complete_call(call)


def _name(r: ParseState) -> Generator[None, None, str]:
    """Return the name before the parenthesis; do not skip the parenthesis."""
    while True:
        match = _NAME.match(r.text, r.pos, r.pos + _LONGEST + 1)
        if match is None or len(match.group()) > _LONGEST:
            raise NotACall
        if match.end() < len(r.text):
            break
        yield from r.wait_for_more()
    r.pos = match.end()
    if r.text[r.pos] != "(":
        raise NotACall
    return match.group()


def _parenthesis(r: ParseState) -> Generator[None, None, str]:
    """Return the text from the opening parenthesis to the closing one."""
    depth, quote = 0, ""
    pieces: list[str] = []
    while True:
        match = _DELIMITERS.search(r.text, r.pos)
        end = len(r.text) if match is None else match.end()
        pieces.append(r.text[r.pos : end])
        r.pos = end
        if match is None:
            yield from r.wait_for_more()
            continue
        char = match.group()
        if char == "\\":
            yield from r.peek()
            pieces.append(r.text[r.pos])
            r.pos += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        else:
            depth += 1 if char in "([{" else -1
        if not depth and not quote:
            return "".join(pieces)


def _keywords(source: str) -> dict[str, Any]:
    try:
        tree = ast.parse(f"f{source}", mode="eval").body
        if not isinstance(tree, ast.Call) or tree.args:
            raise NotACall
        values: dict[str, Any] = {}
        for word in tree.keywords:
            value = ast.literal_eval(_JsonConstants().visit(word.value))
            values.update({word.arg: value} if word.arg is not None else value)  # `**{…}` has no name
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as exc:
        raise NotACall from exc
    return values


class _JsonConstants(ast.NodeTransformer):
    """Replaces the names `true`, `false` and `null` with Python's constants."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(_CONSTANTS[node.id]) if node.id in _CONSTANTS else node
