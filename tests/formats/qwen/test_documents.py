"""The examples of the documents on Qwen-Agent's messages are taken or refused as they say, or it is said why not."""

from collections.abc import Iterator

import pytest

from tests.api.completion_requests import ENDED, USAGE, event, profiled, server_sending
from tests.each_case import each_case
from tests.formats.qwen.documents import EXAMPLES, Example
from tests.in_process_gateway import Running

each = each_case("example", EXAMPLES, ids=lambda example: f"{example.document}: {example.name}")


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    server = server_sending(event({"reasoning_content": "hm"}), event({"content": "25 °C"}), ENDED)
    with Running(profiled(inline_media=[]), server) as running:
        yield running


@each
def test_an_example_is_accepted_or_refused_as_the_table_says(gateway: Running, example: Example) -> None:
    answer = gateway.post("/v1/chat", {"model": "m", "stream": False, **example.request})
    if example.refused_at is None:
        assert answer.status == 200, answer.body
    else:
        assert answer.status == 422
        assert answer.json["error"]["param"].endswith(example.refused_at)


@each
def test_what_differs_from_the_document_has_a_reason_and_nothing_else_has(example: Example) -> None:
    assert (example.taken is (example.refused_at is None)) is (example.why == "")


def test_no_example_stands_here_twice() -> None:
    assert len({(example.document, example.name) for example in EXAMPLES}) == len(EXAMPLES)


def test_a_reply_has_the_fields_of_the_articles_model_response(gateway: Running) -> None:
    reply = gateway.post("/v1/chat", {"model": "m", "stream": False, **EXAMPLES[0].request}).json
    assert reply.keys() >= {"messages", "usage", "model", "finish_reason", "response_id", "created"}
    assert reply["usage"] == USAGE


def test_reasoning_and_content_are_messages_of_their_own_without_nulls(gateway: Running) -> None:
    reply = gateway.post("/v1/chat", {"model": "m", "stream": False, **EXAMPLES[0].request}).json
    assert reply["messages"] == [
        {"role": "assistant", "content": "", "reasoning_content": "hm"},
        {"role": "assistant", "content": "25 °C"},
    ]
