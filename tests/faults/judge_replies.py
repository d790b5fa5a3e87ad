"""Reads the stream of a reply with faults as the gateway does, and judges what comes out: as events, and as a client of
each format reads it."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from app.chat.events import Event, Failed, Finish
from app.chat.messages import ChatRequest, Reasoning, Text, ToolCall
from app.chat.token_usage import read_token_usage
from app.errors import UpstreamFailed
from app.formats import FORMATS
from app.formats.base import Options, ReplyInfo, ReplyMode
from app.profiles import Profile
from app.steps.pipeline import passed_reply_stages, reply_stages
from app.upstream.api import find_api
from app.upstream.reply.reader import ReplyReader

from tests.conversations.clients import CALLERS
from tests.conversations.sample_conversations import normalize_messages
from tests.faults.known_replies import ApiName, Json, KnownReply
from tests.faults.replies import TOOLS, Outcome
from tests.reply_pipeline import INFO
from tests.steps.stage_runner import Reply

REQUEST = ChatRequest("m", (), TOOLS)
NATIVE: dict[ApiName, str] = {"messages": "anthropic", "responses": "responses"}
"""The format whose clients get the events of a server of this API."""
_PASSING_INFO = msgspec.structs.replace(INFO, options=Options(passed=True))


def read_batches(api: ApiName, data: bytes, size: int, *, passing: bool = False) -> list[list[Event]]:
    """Return the events of each read of `size` bytes, as they leave the stages."""
    row = find_api(api)
    make_reader = row.make_passing_reader if passing else row.make_reader
    assert make_reader is not None
    reader: ReplyReader = make_reader("chat-1")
    stages = (passed_reply_stages if passing else reply_stages)(REQUEST, Profile(), "chat-1")
    batches: list[list[Event]] = []

    def add(events: list[Event]) -> None:
        for stage in stages:
            events = stage.feed(events)
        batches.append(events)

    for at in range(0, len(data), size):
        add(reader.assembler.feed(reader.events.feed(data[at : at + size])))
        if reader.assembler.ended:
            break
    if not reader.assembler.ended:
        items = reader.events.close(clean=True)
        add(reader.assembler.feed(items) + reader.assembler.close(reader.events.junk, None))
    return batches


class Told:
    """What the events of a reply tell."""

    def __init__(self, batches: Iterable[list[Event]]) -> None:
        reply = Reply([])
        for events in batches:
            reply.feed(events)
        self.messages = reply.short()
        assert reply.end is not None, "no end"
        self.end: Finish | Failed = reply.end
        self.warnings = [*reply.warnings, *(self.end.warnings if isinstance(self.end, Finish) else ())]

    def join(self, kind: str) -> str:
        return "".join(message[1] for message in self.messages if message[0] == kind).strip()

    @property
    def calls(self) -> list[tuple[str, str]]:
        return [(message[1], message[2]) for message in self.messages if message[0] == "F"]


def find_usages(known: KnownReply, *, may_be_lost: bool) -> Sequence[tuple[int, int] | None]:
    """Return what a reply may say of its usage."""
    prompt, answer = known.usage
    return (known.usage, None, (0, 0), (0, answer), (prompt, 0), (prompt, 1)) if may_be_lost else (known.usage,)


def judge_events(told: Told, known: KnownReply, usage: Sequence[tuple[int, int] | None]) -> Outcome:
    """`usage`: what the reply may say of its usage."""
    whole = [(name, json.dumps(arguments)) for name, arguments in known.calls]
    if isinstance(told.end, Failed):
        begun = (
            _begins(told.calls, whole)
            and known.text.startswith(told.join("C"))
            and known.reasoning.startswith(told.join("R"))
        )
        return "error" if begun else "wrong"
    found = [(name, _load(arguments)) for name, arguments in told.calls]
    reason = "tool_calls" if known.calls else "stop"
    tokens = read_token_usage(told.end.usage)
    is_same = (
        found == list(known.calls)
        and told.join("C") == known.text
        and told.join("R") == known.reasoning
        and told.end.reason == reason
        and (None if tokens is None else (tokens.input, tokens.output)) in usage
    )
    if is_same:
        return "right"
    return "warned" if told.warnings and all(call in known.calls for call in found) else "wrong"


def _begins(found: list[tuple[str, str]], whole: list[tuple[str, str]]) -> bool:
    """Whether calls of a reply that has failed are the beginning of the known ones."""
    expected = dict(whole)
    return all(name in expected and _dense(expected[name]).startswith(_dense(text)) for name, text in found)


def _dense(text: str) -> str:
    return text.replace(" ", "")


def _load(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def find_difference(name: str, batches: list[list[Event]], told: Told, *, passing: bool = False) -> str | None:
    """Return how a client of this format reads the reply otherwise than its events tell it; None if it does not."""
    info = _PASSING_INFO if passing else INFO
    modes: tuple[ReplyMode, ...] = ("delta", "whole")
    for mode in modes:
        data = _encode(name, batches, mode, info)
        if isinstance(told.end, Failed):
            if not any(word in data for word in (b'"error"', b"response.failed", b'"failed"', b'"code"')):
                return f"{mode}: a failure without an error: {data[-200:]!r}"
            continue
        frames = [json.loads(line[6:]) for line in data.split(b"\n") if line[:6] == b"data: " and line[6:7] == b"{"]
        caller = CALLERS[name]
        if mode == "whole":
            messages = caller.whole(json.loads(data))
        elif passing and name == "responses":  # a server may leave out the ends of items
            messages = frames[-1]["response"]["output"]
        else:
            messages = caller.streamed(frames)
        found = _join_parts(name, messages)
        if found != (told.join("R"), told.join("C"), [(name, _load(text)) for name, text in told.calls]):
            return f"{mode}: {found} instead of {told.messages}"
    return None


def _encode(name: str, batches: list[list[Event]], mode: ReplyMode, info: ReplyInfo) -> bytes:
    row = FORMATS[name]
    encoder, stage = row.reply_encoder(info, mode), row.make_stage(info, mode)
    data = encoder.open()
    for events in batches:
        staged = events if stage is None else stage.feed(events)
        if mode == "whole" and staged and isinstance(staged[-1], Failed):
            return data + encoder.fail(UpstreamFailed(staged[-1].fault).to_dict(info.request_id))
        data += encoder.feed(staged)
    return data


def _join_parts(name: str, messages: list[Json]) -> tuple[str, str, list[tuple[str, Any]]]:
    """Return the reasoning, the text and the calls of a reply in this format, as its reader understands them."""
    asked = [CALLERS[name].ask("Weather?"), *json.loads(json.dumps(messages))]
    parts = [part for message in normalize_messages(name, asked)[1:] for part in message.parts]
    return (
        "".join(part.text for part in parts if isinstance(part, Reasoning)).strip(),
        "".join(part.text for part in parts if isinstance(part, Text)).strip(),
        [(part.name, _load(part.arguments)) for part in parts if isinstance(part, ToolCall)],
    )
