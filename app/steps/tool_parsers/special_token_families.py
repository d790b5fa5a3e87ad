"""Parses families with special tokens around a name and JSON arguments: DeepSeek V3 and V3.1, Kimi K2."""

import re
from collections.abc import Generator

from msgspec import Struct

from app.steps.tool_parsers.calls import NotACall, OpenCall
from app.steps.tool_parsers.cursor import Steps
from app.steps.tool_parsers.json_calls import read_arguments
from app.steps.tool_parsers.parser import ParseState


class SpecialTokens(Struct, frozen=True):
    sections: tuple[str, ...]
    section_ends: tuple[str, ...]
    call: str
    separator: str
    call_end: str


DEEPSEEK = SpecialTokens(
    ("<｜tool▁calls▁begin｜>",),
    ("<｜tool▁calls▁end｜>",),
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
)
KIMI = SpecialTokens(
    # K2 Thinking sometimes writes the singular (github.com/ggml-org/llama.cpp/pull/17376).
    ("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"),
    ("<|tool_calls_section_end|>", "<|tool_call_section_end|>"),
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
)
_LIMIT = 200
_KIMI_ID = re.compile(r"(?:functions\.)?(.+?)(?::\d+)?")


def deepseek(r: ParseState) -> Steps:
    """V3: `function<sep>name`, then fenced JSON. V3.1: `name<sep>{…}`."""
    yield from _sections(r, DEEPSEEK)


def kimi_k2(r: ParseState) -> Steps:
    """The function's name is part of the id `functions.name:0`."""
    yield from _sections(r, KIMI)


def _sections(r: ParseState, tokens: SpecialTokens) -> Steps:
    while True:
        marker = yield from r.read_prose(*tokens.sections, tokens.call, *r.pending_closers)
        if marker not in r.pending_closers:
            yield from r.attempt(_section(r, tokens, marker))
        else:
            r.pending_closers = ()


def _section(r: ParseState, tokens: SpecialTokens, marker: str) -> Steps:
    if marker in tokens.sections:
        yield from r.expect_tag(tokens.call)
    while True:
        head, _ = yield from r.read_head(tokens.separator, limit=_LIMIT)
        yield from _call(r, tokens, head.strip())
        tag = yield from r.accept_tag(tokens.call, *tokens.section_ends)
        if tag != tokens.call:
            r.pending_closers = () if tag else tokens.section_ends
            return


def _call(r: ParseState, tokens: SpecialTokens, head: str) -> Steps:
    yield from r.skip_blanks()
    call = _kimi(r, head) if tokens is KIMI else (yield from _deepseek(r, head))
    yield from read_arguments(r, call, (tokens.call_end,))
    r.complete_call(call)
    yield from r.accept_tag("```")
    yield from r.accept_tag(tokens.call_end)


def _kimi(r: ParseState, head: str) -> OpenCall:
    match = _KIMI_ID.fullmatch(head)
    if match is None:
        raise NotACall
    return r.open_call(match.group(1), head)


def _deepseek(r: ParseState, head: str) -> Generator[None, None, OpenCall]:
    if not head:
        raise NotACall
    if (yield from r.is_at("{")):
        return r.open_call(head)
    name, _ = yield from r.read_head("\n", limit=_LIMIT)
    call = r.open_call(name.strip())
    yield from r.accept_tag("```json", "```")
    return call
