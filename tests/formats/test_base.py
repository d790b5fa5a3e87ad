"""Errors in the form of an API, and the metadata of a reply."""

from typing import Any

from app.chat.events import Fault, Finish
from app.chat.messages import Message, Text
from app.chat.stream import Origin
from app.errors import BadRequest, ParleyError, UpstreamFailed
from app.formats.base import (
    ErrorWriter,
    ReplyInfo,
    choose_status,
    is_usage_estimated,
    make_summary,
    wrap_error,
)

from tests.each_case import each_case

OVERLOADED = UpstreamFailed(Fault("overloaded", "", True, 503))
WRITER = ErrorWriter(wrap_error, {503: 529}, {"invalid_request": 422})


@each_case(("error", "status"), [(OVERLOADED, 529), (BadRequest("x"), 422)])
def test_an_api_has_statuses_of_its_own(error: ParleyError, status: int) -> None:
    assert choose_status(WRITER, error) == status
    assert WRITER(error.to_dict("req-1"))["error"]["status"] == status


def test_without_a_table_the_status_is_that_of_the_error() -> None:
    assert choose_status(wrap_error, OVERLOADED) == OVERLOADED.status
    assert choose_status(ErrorWriter(wrap_error), OVERLOADED) == OVERLOADED.status


@each_case(
    ("finish", "estimated"),
    [
        (Finish("stop"), False),
        (Finish("stop", {"prompt_tokens": 1}), False),
        (Finish("stop", {"estimated": True}), True),
        (Finish("stop", estimated_usage={"total_tokens": 1}), True),
    ],
)
def test_usage_is_estimated_if_one_of_its_numbers_is(finish: Finish, estimated: bool) -> None:
    assert is_usage_estimated(finish) is estimated


@each_case(
    ("origin", "fields"),
    [
        (Origin("miss"), {"cached": False}),
        (Origin("hit", 5), {"cached": True, "age": 5}),
        (Origin("hit", 0), {"cached": True, "age": 0}),
    ],
)
def test_a_cached_reply_has_its_age(origin: Origin, fields: dict[str, Any]) -> None:
    info = ReplyInfo("chat-1", "req-1", "m", 1, origin)
    assert info.to_dict() == {"response_id": "chat-1", "model": "m", "created": 1, **fields}


def test_the_warnings_of_the_request_come_before_those_of_the_reply() -> None:
    info = ReplyInfo("chat-1", "req-1", "m", 1, warnings=["a"])
    assert info.warnings_with(Finish("stop", warnings=("b",))) == ["a", "b"]


def test_a_summary_is_a_message_of_the_user() -> None:
    text = Text("Summary of the conversation so far:\n\ns")
    assert make_summary("s", "p") == Message("user", (text,), path="p", is_summary=True)
