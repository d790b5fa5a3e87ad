"""Parses gpt-oss's channels (harmony), and the headers of Muse Glimmer's messages.

`<|channel|>analysis<|message|>…<|end|>` is reasoning, `to=functions.…` in any channel is a call, the rest is content.

Muse Glimmer has recipients and no channels: `<|start|>assistant to=self<|message|>…<|eom|>` is reasoning, and behind
`to=get_weather<|message|>` comes a block of calls, which says the function again (ggml-org/llama.cpp#26879). A server
that has eaten the start of the first header leaves ` to=get_weather<|message|>` (ggml-org/llama.cpp#29240). Beam writes
the parameters of a call in tags (sglang/srt/parser/beam.py): `to=f<|channel|>analysis <|constrain|>xml<|message|>`.

Servers that leave out special tokens also leave out the channels': `analysisWe need …assistantfinalFour`, and
`commentary to=functions.f json{…}`. Only at the start of a reply that is certain enough.
"""

import re
from collections.abc import Generator

from msgspec import Struct

from app.steps.tool_parsers.calls import NotACall, TruncatedCall
from app.steps.tool_parsers.cursor import BoolSteps, Steps
from app.steps.tool_parsers.json_calls import read_arguments, skip_before_arguments
from app.steps.tool_parsers.parser import ParseState
from app.steps.tool_parsers.xml_calls import XmlSyntax, read_parameters

START, CHANNEL, _MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
ENDS = ("<|end|>", "<|call|>", "<|return|>", "<|eom|>", "<|eot|>")
ATEM_BLOCK = "<atem:function_calls>"
"""Opens Muse Glimmer's calls."""
_TO = re.compile(r"\bto=(?!(?:assistant|user|self)\b)(?:functions\.)?([\w.\-]+)")
"""gpt-oss also writes `to=assistant` for what is no call (github.com/ggml-org/llama.cpp/issues/27720)."""
_XML = "<|constrain|>xml"
_BEAM = XmlSyntax("", ENDS[0], '<rfl:parameter name="', "</rfl:parameter>")
_TO_SELF = re.compile(r"\bto=self\b")
_BARE_CALL = "to=functions."
_CHANNELS = ("commentary", "analysis")
_BARE_CALLS = tuple(f"{role}{channel} {_BARE_CALL}" for role in ("", "assistant") for channel in _CHANNELS)
_BARE_RECIPIENT = "to="
_ROLE = "assistant"
_BARE_THOUGHT = "analysis"
_BARE_NEXT = ("assistantfinal", "assistantcommentary", "assistantanalysis")
_NAME_END = re.compile(r"[^\w.\-]")


class HarmonyMessage(Struct, frozen=True):
    opening: str = ""

    def is_next(self, r: ParseState) -> BoolSteps:
        yield from ()  # it waits for nothing
        return True

    def read(self, r: ParseState, closers: tuple[str, ...]) -> Steps:
        header, _ = yield from r.read_head(_MESSAGE, limit=300)
        recipient = _TO.search(header)
        if recipient is not None and r.tools:
            yield from _call(r, recipient.group(1), has_xml=_XML in header)
            return
        channel = re.sub(r"^.*<\|channel\|>", "", header, flags=re.DOTALL).strip()
        is_thought = channel.startswith("analysis") or _TO_SELF.search(header) is not None
        emit = r.emit_reasoning if is_thought else r.emit_text
        r.commit()
        try:
            tag = yield from r.stream_until(emit, *ENDS, START, CHANNEL)
        except TruncatedCall:
            emit(r.take_rest())
            raise
        if tag in ENDS:
            r.pos += len(tag)


def _call(r: ParseState, name: str, *, has_xml: bool = False) -> Steps:
    if has_xml:
        yield from _read_xml(r, name)
        return
    yield from r.skip_blanks()
    if (yield from r.is_at(_BEAM.parameter)):
        yield from _read_xml(r, name)
        return
    if (yield from r.is_at(ATEM_BLOCK)):
        r.commit()
        return
    call = r.open_call(name)
    yield from skip_before_arguments(r)
    yield from r.skip_blanks()
    if r.text[r.pos] != "{":
        raise NotACall
    yield from read_arguments(r, call, ENDS)
    r.complete_call(call)
    yield from r.accept_tag(*ENDS)


def _read_xml(r: ParseState, name: str) -> Steps:
    call = r.open_call(name)
    try:
        yield from read_parameters(r, call, _BEAM, ENDS)
    except TruncatedCall:
        if r.cut or call.certain or r.text[r.pos :].strip():
            raise
        call.put("{}")
    r.complete_call(call)
    yield from r.accept_tag(*ENDS)


def read_bare_channels(r: ParseState) -> Steps:
    """Read the start of a reply whose server has left out the tokens of its channels."""
    yield from r.skip_blanks()
    if (yield from r.is_at(_ROLE + CHANNEL)):
        r.pos += len(_ROLE)
        r.commit()
    elif (yield from r.is_at(f"{_ROLE} {_BARE_RECIPIENT}")):
        r.pos += len(f"{_ROLE} ")
        yield from _read_bare_recipient(r)
    elif not r.strict and (yield from _is_bare_thought(r)):
        yield from _read_bare_thought(r)
    elif (yield from r.is_at(_BARE_RECIPIENT)):
        yield from _read_bare_recipient(r)
    elif r.tools:
        yield from _read_bare_call(r)
    else:
        raise NotACall


def _read_bare_recipient(r: ParseState) -> Steps:
    """Read a header that has lost its start."""
    start = r.position
    r.pos += len(_BARE_RECIPIENT)
    name = yield from _read_name(r)
    if (yield from r.accept(_MESSAGE)):
        if name not in ("self", "user") and not (yield from r.is_at(ATEM_BLOCK)):
            raise NotACall
    elif not (yield from r.is_at(CHANNEL)):
        r.rewind(start)
        if not r.tools or not (yield from r.accept(_BARE_CALL)):
            raise NotACall
        yield from _read_bare_arguments(r)
        return
    r.rewind(start)
    yield from HarmonyMessage().read(r, ())


def _is_bare_thought(r: ParseState) -> BoolSteps:
    """Whether the name of the channel comes next, and its text directly behind it."""
    while len(r.text) - r.pos <= len(_BARE_THOUGHT) and _BARE_THOUGHT.startswith(r.text[r.pos :]) and not r.ended:
        yield from r.wait_for_more()
    char = r.text[r.pos + len(_BARE_THOUGHT) : r.pos + len(_BARE_THOUGHT) + 1]
    return r.text.startswith(_BARE_THOUGHT, r.pos) and char.isupper()


def _read_bare_thought(r: ParseState) -> Steps:
    r.pos += len(_BARE_THOUGHT)
    r.commit()
    emit = r.emit_reasoning
    while True:
        try:
            tag = yield from r.stream_until(emit, *_BARE_NEXT)
        except TruncatedCall:
            emit(r.take_rest())
            raise
        r.pos += len(tag)
        if tag == "assistantfinal":
            return
        if tag == "assistantcommentary" and r.tools and (yield from r.accept(" to=functions.")):
            yield from _read_bare_arguments(r)
            return


def _read_bare_call(r: ParseState) -> Steps:
    tag = yield from r.expect_tag(*_BARE_CALLS)
    assert tag
    yield from _read_bare_arguments(r)


def _read_bare_arguments(r: ParseState) -> Steps:
    name = yield from _read_name(r)
    if r.find_name(name) not in r.tools:
        raise NotACall
    yield from r.skip_blanks()
    yield from r.accept_tag(*_CHANNELS)  # the recipient may stand before the channel (openai/codex#13114)
    yield from _call(r, name)


def _read_name(r: ParseState) -> Generator[None, None, str]:
    while True:
        found = _NAME_END.search(r.text, r.pos, r.pos + 200)
        if found is not None:
            name, r.pos = r.text[r.pos : found.start()], found.start()
            return name
        if len(r.text) - r.pos > 200:
            raise NotACall
        yield from r.wait_for_more()
