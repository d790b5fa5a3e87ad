"""Parses gpt-oss's channels (harmony).

`<|channel|>analysis<|message|>…<|end|>` is reasoning, `to=functions.…` in any channel is a call, the rest is content.
"""

import re

from app.steps.tool_parsers.calls import NotACall, TruncatedCall
from app.steps.tool_parsers.cursor import Steps
from app.steps.tool_parsers.json_calls import read_arguments
from app.steps.tool_parsers.parser import ParseState

_START, _CHANNEL, _MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_TO = re.compile(r"\bto=(?!(?:assistant|user)\b)(?:functions\.)?([\w.\-]+)")
"""gpt-oss also writes `to=assistant` for what is no call (github.com/ggml-org/llama.cpp/issues/27720)."""


def harmony(r: ParseState) -> Steps:
    while True:
        marker = yield from r.read_prose(_START, _CHANNEL, *_ENDS)
        if marker not in _ENDS:
            yield from r.attempt(_message(r))


def _message(r: ParseState) -> Steps:
    header, _ = yield from r.read_head(_MESSAGE, limit=300)
    recipient = _TO.search(header)
    if recipient is not None and r.tools:
        yield from _call(r, recipient.group(1))
        return
    channel = re.sub(r"^.*<\|channel\|>", "", header, flags=re.DOTALL).strip()
    emit = r.emit_reasoning if channel.startswith("analysis") else r.emit_text
    r.commit()
    try:
        tag = yield from r.stream_until(emit, *_ENDS, _START, _CHANNEL)
    except TruncatedCall:
        emit(r.take_rest())
        raise
    if tag in _ENDS:
        r.pos += len(tag)


def _call(r: ParseState, name: str) -> Steps:
    call = r.open_call(name)
    yield from r.skip_blanks()
    if r.text[r.pos] != "{":
        raise NotACall
    yield from read_arguments(r, call, _ENDS)
    r.complete_call(call)
    yield from r.accept_tag(*_ENDS)
