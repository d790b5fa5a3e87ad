"""Families that put special tokens around a name and JSON arguments: DeepSeek V3 and V3.1, Kimi K2."""

import re
from collections.abc import Generator
from dataclasses import dataclass

from app.steps.text_tools.cursor import Steps
from app.steps.text_tools.json_calls import arguments
from app.steps.text_tools.reading import Reading
from app.steps.text_tools.told import Told, Unreadable


@dataclass(frozen=True, slots=True)
class Tokens:
    section: str
    section_end: str
    call: str
    separator: str
    call_end: str


DEEPSEEK = Tokens(
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
)
KIMI = Tokens(
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
)
_LIMIT = 200
_KIMI_ID = re.compile(r"(?:functions\.)?(.+?)(?::\d+)?")


def deepseek(r: Reading) -> Steps:
    """V3: `function<sep>name`, then fenced JSON. V3.1: `name<sep>{…}`."""
    yield from _sections(r, DEEPSEEK)


def kimi_k2(r: Reading) -> Steps:
    """The id `functions.name:0` stands for the name."""
    yield from _sections(r, KIMI)


def _sections(r: Reading, tokens: Tokens) -> Steps:
    while True:
        marker = yield from r.prose(tokens.section, tokens.call, *r.owed)
        if marker not in r.owed:
            yield from r.attempt(_section(r, tokens, marker))
        else:
            r.owed = ()


def _section(r: Reading, tokens: Tokens, marker: str) -> Steps:
    if marker == tokens.section and not (yield from r.swallow(tokens.call)):
        raise Unreadable
    while True:
        head, _ = yield from r.until(tokens.separator, limit=_LIMIT)
        yield from _call(r, tokens, head.strip())
        tag = yield from r.swallow(tokens.call, tokens.section_end)
        if tag != tokens.call:
            r.owed = () if tag else (tokens.section_end,)
            return


def _call(r: Reading, tokens: Tokens, head: str) -> Steps:
    yield from r.blanks()
    call = _kimi(r, head) if tokens is KIMI else (yield from _deepseek(r, head))
    yield from arguments(r, call, (tokens.call_end,))
    call.finish()
    yield from r.swallow("```")
    yield from r.swallow(tokens.call_end)


def _kimi(r: Reading, head: str) -> Told:
    match = _KIMI_ID.fullmatch(head)
    if match is None:
        raise Unreadable
    return r.open(match.group(1), head)


def _deepseek(r: Reading, head: str) -> Generator[None, None, Told]:
    if not head:
        raise Unreadable
    if (yield from r.sees("{")):
        return r.open(head)
    name, _ = yield from r.until("\n", limit=_LIMIT)
    call = r.open(name.strip())
    yield from r.swallow("```json", "```")
    return call
