"""Warnings in the header `x-parley-warnings`, for faces whose bodies have no field for them."""

import json
from typing import Any

import pytest

from tests.api.completion_requests import QUESTION, ask, profiled

UNSENT = "seed was not sent: this model's server has no such parameter"


@pytest.mark.parametrize("stream", [True, False])
def test_parameters_that_were_not_sent_are_in_the_header(stream: bool) -> None:
    answer = ask(settings=profiled(lacks=["seed"]), seed=1, stream=stream)
    assert answer.status == 200
    assert json.loads(answer.headers["x-parley-warnings"]) == [UNSENT]


def test_without_warnings_there_is_no_header() -> None:
    assert "x-parley-warnings" not in ask().headers


def test_the_header_is_ascii_in_one_line_and_bounded() -> None:
    odd: dict[str, Any] = {f"\u00fc\r\nset-cookie: {number}": "x" for number in range(200)}
    answer = ask(messages=[{**QUESTION[0], **odd}])
    header = answer.headers["x-parley-warnings"]
    assert header.isascii() and header.isprintable() and len(header) <= 4096
    warnings = json.loads(header)
    assert warnings[-1] == f"and {200 - len(warnings) + 1} more"
    assert "set-cookie" not in answer.headers
