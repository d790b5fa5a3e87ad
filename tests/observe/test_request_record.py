"""What is recorded of a request, and who gets it."""

import pytest
from app.observe.request_record import RequestRecord

from tests.in_process_gateway import HELLO, ModelServer, Running, streamed

BODY = {"messages": [{"role": "user", "content": "Hi"}]}


def test_every_observer_gets_the_record_of_each_request_once() -> None:
    with Running(server=ModelServer()) as gateway:
        records: list[RequestRecord] = []
        gateway.context.ended.observers += [records.append]
        gateway.post("/v1/chat", BODY, {"x-request-id": "mine"})
        gateway.post("/v1/chat/completions", {**BODY, "model": "m"})
        gateway.post("/v1/chat", {**BODY, "model": "x"})
        gateway.post("/v1/chat", b"{")
    whole, second, unknown, broken = records
    assert (whole.request_id, whole.endpoint, whole.model, whole.stream) == ("mine", "chat", "m", True)
    assert (whole.status, whole.error, whole.finish_reason, whole.cache) == (200, None, "stop", "bypass")
    assert [attempt.upstream for attempt in whole.attempts] == ["local"]
    assert whole.first_token_at is not None
    assert whole.started_at <= whole.first_token_at <= whole.started_at + whole.duration
    assert (second.endpoint, second.stream) == ("completions", False)
    assert (unknown.status, unknown.error, unknown.error_from_upstream, unknown.model) == (
        404,
        "unknown_model",
        False,
        "",
    )
    assert (broken.status, broken.error, broken.first_token_at) == (400, "invalid_request", None)


def test_an_error_of_the_model_server_is_recorded_as_its_own() -> None:
    with Running(server=ModelServer(lambda _: streamed(HELLO))) as gateway:
        records: list[RequestRecord] = []
        gateway.context.ended.observers += [records.append]
        gateway.post("/v1/chat", BODY)
    (record,) = records
    assert (record.status, record.error, record.error_from_upstream) == (200, "upstream_incomplete", True)
    assert record.upstream_failure is not None


def test_an_observer_that_raises_disturbs_neither_the_request_nor_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(_: RequestRecord) -> None:
        raise RuntimeError("broken observer")

    with Running(server=ModelServer()) as gateway:
        records: list[RequestRecord] = []
        gateway.context.ended.observers[:0] = [broken]
        gateway.context.ended.observers += [records.append]
        assert [gateway.post("/v1/chat", BODY).status for _ in range(3)] == [200] * 3
    assert len(records) == 3
    assert capsys.readouterr().err.count("defect in an observer") == 1
