"""The conformance cases reach the clients of Messages and Responses, but for what those APIs cannot say."""

import pytest

from tests.conformance.case_runner import CASES, replay_case
from tests.face_reader import FORMATS, list_losses
from tests.reply_pipeline import read_reply

LOST: dict[str, dict[str, int]] = {
    "/v1/messages": {
        "the reply: it becomes an error": 3,
        "calls of a reply that reached its length": 1,
        "the number of completion_tokens": 1,  # reasoning that a server has in the total alone is counted
        "the finish reason: stop becomes content_filter": 3,
    },
    "/v1/responses": {"the number of completion_tokens": 1},
}


@pytest.mark.anyio
async def test_nothing_of_a_reply_is_lost_but_what_an_api_cannot_say() -> None:
    found: dict[str, dict[str, int]] = {path: {} for path in FORMATS}
    for case in CASES:
        batches = await replay_case(case)
        for path, reply_format in FORMATS.items():
            for loss in list_losses(reply_format, batches, read_reply(batches, "whole")):
                found[path][loss] = found[path].get(loss, 0) + 1
    assert found == LOST
