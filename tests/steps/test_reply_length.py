"""That a reply was cut off at its limit is found where the server does not say so."""

from typing import Any

from app.chat.events import Event, Failed, Finish, TextDelta
from app.chat.messages import ChatRequest
from app.profiles import Profile
from app.steps.pipeline import reply_stages, reply_traits
from app.steps.reply_length import ReplyLengthStage
from app.upstream.faults import make_fault

from tests.each_case import each_case

SILENT = Profile(reports_length=False)


@each_case(
    ("params", "profile", "limit"),
    [
        ({"max_tokens": 5}, {}, 5),
        ({"max_completion_tokens": 5}, {}, 5),
        ({"max_tokens": 5}, {"reports_length": True}, None),
        ({}, {}, None),
        ({"max_tokens": 500}, {"max_output_tokens": 100}, 100),
        ({"max_tokens": 5}, {"max_output_tokens": 100, "min_output_tokens": 16}, 16),
    ],
)
def test_the_limit_is_the_one_that_was_sent(params: dict[str, Any], profile: dict[str, Any], limit: int | None) -> None:
    asked, silent = ChatRequest("m", (), (), params), SILENT.model_copy(update=profile)
    assert reply_traits(asked, silent).get("limit") == limit
    assert any(isinstance(stage, ReplyLengthStage) for stage in reply_stages(asked, silent, "r")) is (limit is not None)


@each_case(
    ("end", "reason"),
    [
        (Finish("stop", {"completion_tokens": 5}), "length"),
        (Finish("tool_calls", {"completion_tokens": 6}), "length"),
        (Finish("stop", {"completion_tokens": 4}), "stop"),
        (Finish("stop", {"completion_tokens": None}), "stop"),
        (Finish("stop"), "stop"),
        (Finish("content_filter", {"completion_tokens": 5}), "content_filter"),
    ],
)
def test_a_reply_that_used_all_its_tokens_was_cut_off(end: Finish, reason: str) -> None:
    text = TextDelta("a")
    events = ReplyLengthStage(5).feed([text, end])
    last = events[-1]
    assert events[0] is text and isinstance(last, Finish) and (last.reason, last.usage) == (reason, end.usage)


@each_case("events", [[], [TextDelta("a")], [Failed(make_fault("timeout", "late"))]])
def test_nothing_else_is_changed(events: list[Event]) -> None:
    assert ReplyLengthStage(5).feed(events) == events
