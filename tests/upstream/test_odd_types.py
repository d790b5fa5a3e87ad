"""A model server may send any type in any place: that is its fault or none, never a defect of the gateway."""

import json
import random
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

import msgspec
from app.calls.entry import Batch
from app.calls.log import EntryEncoder
from app.chat.events import END_TYPES, Event, Failed
from app.chat.messages import ChatRequest, Tool
from app.errors import CODES, UpstreamFailed
from app.formats import FORMATS
from app.formats.base import Options, ReplyInfo, ReplyMode, ResponsesOptions
from app.profiles import Profile
from app.steps.pipeline import reply_stages
from app.upstream import faults
from app.upstream.api import find_api
from app.upstream.http.client import parse_model_list

from tests.each_case import each_case
from tests.effort import LONG
from tests.upstream.odd_types import OddReply, list_errors, list_model_lists, list_ragged, list_replies

BOUND = 400
"""How many replies are tried if not all are: the same in every run, each in one of the modes."""
MODES: tuple[ReplyMode, ...] = ("delta", "snapshot", "whole")
ASKED = ChatRequest("m", (), (Tool("get_weather", {"name": "get_weather"}),))
OWN_FORMATS = {"messages": "anthropic", "responses": "responses", "gemini": "gemini"}
"""Whose clients get the server's own events of an API; those of all others get what its reader says."""
OPTIONS = (Options(passed=True), Options(responses=ResponsesOptions(sealed=True, summary=True, client_search=True)))


def choose(replies: Sequence[OddReply]) -> Sequence[OddReply]:
    return replies if LONG else random.Random(48).sample(replies, BOUND)


def read(reply: OddReply, *, passing: bool) -> list[list[Event]]:
    api = find_api(reply.api)
    make = api.make_passing_reader if passing and api.make_passing_reader else api.make_reader
    reader, assembler = make("chat-1")
    found = [assembler.feed(reader.feed(reply.write()))]
    if not assembler.ended:
        found.append(assembler.feed(reader.close(True)))
        found.append(assembler.close(reader.junk))
    assembler.read_usage()
    batches = [events for events in found if events]
    for stage in reply_stages(ASKED, Profile(), "chat-1"):
        batches = [stage.feed(events) for events in batches]
    return batches


def check_end(batches: list[list[Event]]) -> None:
    ends = [event for events in batches for event in events if isinstance(event, END_TYPES)]
    assert len(ends) == 1
    assert batches[-1][-1] is ends[0]
    if isinstance(ends[0], Failed):
        assert ends[0].fault.code in CODES
        assert ends[0].fault.code != "internal_error"


def check_formats(batches: list[list[Event]], options: Options, modes: Sequence[ReplyMode], api: str) -> None:
    """Every format that may get the reply can write it, in each of the modes."""
    last = batches[-1][-1]
    own = OWN_FORMATS.get(api) if options.passed else None
    for name, format_ in FORMATS.items() if own is None else [(own, FORMATS[own])]:
        for mode in modes:
            encoder = format_.reply_encoder(ReplyInfo("chat-1", "req-1", "m", 1, options=options), mode)
            try:
                data = encoder.open() + b"".join(map(encoder.feed, batches))
                if mode == "whole" and isinstance(last, Failed):
                    data = encoder.fail(UpstreamFailed(last.fault).to_dict("req-1"))
                data.decode()
                if mode == "whole" and not options.passed:
                    json.loads(data)
            except Exception as error:
                error.add_note(f"in the format {name}, {mode}")
                raise


def check_entry(batches: list[list[Event]]) -> None:
    """The reply can be stored, or is not: that is no failure."""
    log = EntryEncoder()
    for events in batches:
        log.add(Batch(0.0, events), 1)
    log.finish(0.0)


def check_error(body: bytes, status: int) -> None:
    """An error body is an error with a known code, which every format can write."""
    fault = faults.from_response(status, {}, body, datetime(2026, 1, 1, tzinfo=UTC))
    error = UpstreamFailed(fault)
    assert fault.code in CODES
    assert fault.message
    for format_ in FORMATS.values():
        msgspec.json.encode(format_.error(error.to_dict("req-1")))


@each_case("status", [400, 429, 500])
def test_an_error_body_of_other_types_is_an_error(status: int) -> None:
    for body in list_errors():
        check_error(body, status)


def test_a_list_of_models_of_other_types_is_read_or_refused() -> None:
    for body in list_model_lists():
        with suppress(ValueError):
            assert all(isinstance(row, dict) for row in parse_model_list(body))


@each_case("replies", [list(list_replies()), list(list_ragged())])
def test_a_value_of_another_type_and_half_a_pair_are_never_a_defect(replies: Sequence[OddReply]) -> None:
    failed: list[str] = []
    written: set[tuple[str, bool, Sequence[ReplyMode]]] = set()
    """What was written already: many values are looked at by no reader, and leave the same events."""
    for number, reply in enumerate(choose(replies)):
        modes = MODES if LONG else MODES[number % len(MODES) :][:1]
        for options in OPTIONS:
            try:
                batches = read(reply, passing=options.passed)
                check_end(batches)
                made = repr(batches), options.passed, modes
                if made not in written:
                    check_formats(batches, options, modes, reply.api)
                    check_entry(batches)
                    written.add(made)
            except Exception as error:
                failed.append(f"{reply.name}: {error!r} {getattr(error, '__notes__', '')}")
    assert failed == []


@each_case(
    "reply",
    [
        OddReply("responses", 20, False, ("delta",), "x\ud83d"),
        OddReply("responses", 20, False, ("item_id",), "\ude00"),
        OddReply("chat_completions", 7, False, ("choices", 0, "delta", "tool_calls", 0, "extra_content"), 1.5),
        OddReply("chat_completions", 7, False, ("choices", 0, "delta", "tool_calls", 0, "extra_content"), [[]]),
    ],
)
def test_what_was_a_defect_is_none(reply: OddReply) -> None:
    for options in OPTIONS:
        batches = read(reply, passing=options.passed)
        check_end(batches)
        check_formats(batches, options, MODES, reply.api)
