"""The corpus's cases of leaked calls: bytes through the reader, the assembler, the stages, into messages."""

import random
from collections.abc import Iterable
from typing import Any

import pytest
from app.chat.events import Failed, Finish
from app.chat.stage import Stage
from app.profiles import Profile
from app.steps.reasoning_parser import ReasoningStage
from app.steps.tool_parsers import tool_parser_stage
from app.upstream.chat_completions import chunk_decoder
from app.upstream.chat_completions.assembler import Assembler
from app.upstream.reply.sse import EventReader

from tests.conformance.cases import body_chunks, compare, load_cases
from tests.cuts import bytewise, every_cut, random_cuts, whole
from tests.each_case import each_case
from tests.effort import LONG
from tests.reply_pipeline import make_tool
from tests.steps.stage_runner import Reply

CASES = [case for case in load_cases() if {"text_tools", "think_interrupt"} & case["profile"].keys()]

CUTS = 40
"""In two parts; everywhere with `FUZZ=long`."""

every_case = each_case("case", CASES, ids=lambda case: case["id"])


def result(case: dict[str, Any], reads: Iterable[bytes]) -> dict[str, Any]:
    profile = Profile.model_validate(case["profile"])
    tools = tuple(map(make_tool, case["request"].get("tools", ())))
    stages: list[Stage] = [ReasoningStage(profile.inline_think, profile.think_tags, profile.think_interrupt)]
    assert profile.text_tools is not None
    found = tool_parser_stage(profile.text_tools, tools, "chat-1")
    reader, assembler = EventReader(chunk_decoder.decode), Assembler("chat-1")
    reply = Reply([*stages, found])
    for read in reads:
        reply.feed(assembler.feed(reader.feed(read)))
    reply.feed(assembler.feed(reader.close(clean=True)) + assembler.close(reader.junk))
    assert isinstance(reply.end, Finish | Failed)
    usage = reply.end.usage if isinstance(reply.end, Finish) else None
    return {"messages": reply.messages(), "finish_reason": reply.reason, "usage": usage, "error": None}


def test_every_family_has_a_case() -> None:
    assert len({case["profile"].get("text_tools") for case in CASES} - {None}) == 14


@every_case
def test_a_case_gives_what_the_corpus_expects(case: dict[str, Any]) -> None:
    assert compare(case, result(case, body_chunks(case))) == []


@pytest.mark.many_cases
@every_case
def test_no_cut_changes_the_result(case: dict[str, Any]) -> None:
    body = b"".join(body_chunks(case))
    once = list(every_cut(body))
    if not LONG:
        once = random.Random(case["id"]).sample(once, min(CUTS, len(once)))
    cuts = [whole(body), bytewise(body), *once, *(random_cuts(body, seed, 9) for seed in range(10))]
    for reads in cuts:
        assert compare(case, result(case, reads)) == []
