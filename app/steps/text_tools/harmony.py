"""gpt-oss's channels: `<|channel|>analysis<|message|>…<|end|>` are thoughts, `to=functions.…` is a call, whatever the
channel; the rest is content."""

import re

from app.steps.text_tools.cursor import Steps
from app.steps.text_tools.json_calls import arguments
from app.steps.text_tools.reading import Reading
from app.steps.text_tools.told import Cut, Unreadable

_START, _CHANNEL, _MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_TO = re.compile(r"\bto=(?:functions\.)?([\w.\-]+)")


def harmony(r: Reading) -> Steps:
    while True:
        marker = yield from r.prose(_START, _CHANNEL, *_ENDS)
        if marker not in _ENDS:
            yield from r.attempt(_message(r))


def _message(r: Reading) -> Steps:
    header, _ = yield from r.until(_MESSAGE, limit=300)
    recipient = _TO.search(header)
    if recipient is not None and r.tools:
        yield from _call(r, recipient.group(1))
        return
    channel = re.sub(r"^.*<\|channel\|>", "", header, flags=re.DOTALL).strip()
    say = r.think if channel.startswith("analysis") else r.say
    r.begin()
    try:
        tag = yield from r.passing(say, *_ENDS, _START, _CHANNEL)
    except Cut:
        say(r.rest())
        raise
    if tag in _ENDS:
        r.pos += len(tag)


def _call(r: Reading, name: str) -> Steps:
    call = r.open(name)
    yield from r.blanks()
    if r.text[r.pos] != "{":
        raise Unreadable
    yield from arguments(r, call, _ENDS)
    call.finish()
    yield from r.swallow(*_ENDS)
