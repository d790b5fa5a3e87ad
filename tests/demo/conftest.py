from typing import Any

import pytest

from tests.demo.demo_replies import Ask, Converse, Reply


@pytest.fixture
def ask() -> Ask:
    def ask_question(question: Any, **body: Any) -> Reply:
        return Reply(messages=[{"role": "user", "content": question}], **body)

    return ask_question


@pytest.fixture
def converse() -> Converse:
    def send_messages(messages: list[dict[str, Any]], **body: Any) -> Reply:
        return Reply(messages=messages, **body)

    return send_messages


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
