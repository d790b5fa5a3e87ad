"""The warning of an empty reply reaches the clients of every format and endpoint."""

import json
from typing import Any

import pytest
from app.formats import FORMATS

from tests.api.completion_requests import DONE, QUESTION, event, server_sending
from tests.in_process_gateway import SERVER, Running

EMPTY = server_sending(event({"role": "assistant"}), event({}, "stop"), DONE)
PATHS = {"/v1/chat/completions": {"messages": QUESTION}, "/v1/responses": {"input": "Hi"}}
PATHS["/v1/messages"] = {"messages": QUESTION, "max_tokens": 9}
CALLS = [("/v1/chat", {"messages": QUESTION, "reply_format": name}) for name in FORMATS]


@pytest.mark.parametrize(("path", "body"), [*CALLS, *PATHS.items()], ids=str)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_an_empty_reply_has_a_warning_in_every_format(path: str, body: dict[str, Any], stream: bool) -> None:
    with Running(SERVER, EMPTY) as gateway:
        answer = gateway.post(path, {"model": "m", "stream": stream, **body})
    assert answer.status == 200
    assert b"the model's reply is empty" in answer.body
    if not stream:
        json.loads(answer.body)
