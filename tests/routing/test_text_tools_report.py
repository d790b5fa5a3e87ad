"""The first reply whose calls were found in the text is logged, with the line for the configuration."""

import json
import logging

import pytest
from app.chat.messages import ChatRequest, Tool
from app.chat.stream import AttemptLog
from app.routing import Deployment, ModelRoute, PreparedRequest

from tests.bare_gateway import make_gateway
from tests.reply_pipeline import INFO, PLAIN, TARGET, Batches, Recorded

CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_calls_in_text_are_logged_once_with_their_setting(caplog: pytest.LogCaptureFixture) -> None:
    body = json.dumps({"choices": [{"index": 0, "message": {"content": CALL}, "finish_reason": "stop"}]}).encode()
    route = ModelRoute("m", (Deployment(TARGET, "m", PLAIN),), {})
    gateway = make_gateway(route, Recorded([body]))
    request = ChatRequest("m", (), (Tool("f", {"name": "f"}),))
    with caplog.at_level(logging.WARNING, "parley.routing"):
        for _ in range(2):
            prepared = PreparedRequest(route, request, (b"{}",), (), 0, None)
            reply = await gateway.open(prepared, INFO.response_id, AttemptLog())
            reply.start(Batches())
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1
    assert 'text_tools = "hermes" under [models.m.profile]' in messages[0]
