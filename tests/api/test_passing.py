"""Requests that are no conversation, through the whole gateway."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.passing_gateway import ENDPOINTS, Gateway, whole
from tests.each_case import each_case
from tests.in_process_gateway import streamed

VECTORS = {
    "data": [{"index": 0, "embedding": [0.5]}],
    "model": "up-e",
    "usage": {"prompt_tokens": 3, "total_tokens": 3},
}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with Gateway() as running:
        yield running


@each_case(
    ("path", "model", "url"),
    [
        ("/v1/embeddings", "e", "http://e.test/v1/embeddings"),
        ("/embeddings", "e", "http://e.test/embeddings"),
        ("/v2/embed", "e", "http://e.test/v2/embed"),
        ("/rerank", "r", "http://r.test/rerank"),
        ("/v1/rerank", "odd", "http://odd.test/rank"),
        ("/classify", "p", "http://p.test/classify"),
        ("/v1/moderations", "p", "http://p.test/v1/moderations"),
        ("/v1/images/generations", "i", "http://i.test/v1/images/generations"),
        ("/tokenize", "m", "http://m.test/tokenize"),
        ("/v1/completions", "c", "http://c.test/v1/completions"),
    ],
)
def test_body_and_answer_pass_with_another_name_of_the_model(gateway: Gateway, path: str, model: str, url: str) -> None:
    answer = gateway.send(path, {"model": model, "input": ["a"], "future": 1}, whole({"x": [1.0], "model": "up"}))
    assert (answer.status, answer.json) == (200, {"x": [1.0], "model": model})
    name = model if model == "odd" else f"up-{model}"
    assert gateway.sent == [(url, {"model": name, "input": ["a"], "future": 1})]


def test_usage_and_cost_are_counted(gateway: Gateway) -> None:
    answer = gateway.send("/v1/embeddings", {"model": "priced", "input": "a"}, whole(VECTORS))
    assert "x-parley-usage-estimated" not in answer.headers
    assert (gateway.last.endpoint, gateway.last.model) == ("embeddings", "priced")
    assert (gateway.last.tokens.input, gateway.last.tokens.output, gateway.last.cost) == (3, 0, 3.0)
    assert gateway.last.finish_reason is None


def test_the_defaults_of_a_model_are_added(gateway: Gateway) -> None:
    gateway.send("/v1/embeddings", {"model": "priced", "input": "a"}, whole(VECTORS))
    assert gateway.sent[0][1] == {"model": "priced", "input": "a", "temperature": 0.5, "dimensions": 3}


def test_an_estimate_is_marked(gateway: Gateway) -> None:
    answer = gateway.send("/v1/embeddings", {"model": "e", "input": "abcdefgh"}, whole({"data": []}))
    assert answer.headers["x-parley-usage-estimated"] == "true"
    assert (gateway.last.tokens.input, gateway.last.tokens_estimated) == (2, True)


def test_tokens_that_are_only_counted_are_not_billed(gateway: Gateway) -> None:
    answer = gateway.send("/tokenize", {"model": "priced", "prompt": "abcdefgh"}, whole({"count": 1}))
    assert answer.status == 200
    assert (gateway.last.tokens.total, gateway.last.cost) == (0, None)


@each_case(
    ("path", "body", "status", "code", "words"),
    [
        ("/v1/embeddings", {"model": "m", "input": "a"}, 400, "unsupported", "'m' serves chat, not embeddings"),
        ("/v1/embeddings", {"model": "nope"}, 404, "unknown_model", "nope"),
        ("/v1/embeddings", {"input": "a"}, 400, "invalid_request", "e, retried, falls, same, priced"),
        ("/v1/moderations", b"[]", 400, "invalid_request", "JSON object"),
        ("/v1/embeddings", {"model": "priced", "provider": {"a": 1}}, 403, "permission", "provider"),
    ],
)
def test_a_request_that_cannot_be_sent_is_refused(
    gateway: Gateway, path: str, body: Any, status: int, code: str, words: str
) -> None:
    answer = gateway.send(path, body)
    assert (answer.status, answer.json["error"]["code"]) == (status, code)
    assert words in answer.json["error"]["message"]
    assert gateway.sent == []


def test_a_conversation_for_a_model_of_vectors_is_refused(gateway: Gateway) -> None:
    body = {"model": "e", "messages": [{"role": "user", "content": "a"}]}
    answer = gateway.send("/v1/chat/completions", body)
    assert (answer.status, answer.json["error"]["code"]) == (400, "unsupported")


def test_the_only_model_of_an_endpoint_is_meant_where_clients_name_none(gateway: Gateway) -> None:
    assert gateway.send("/v1/moderations", {"input": "a"}, whole({})).status == 200
    assert gateway.sent[0][1] == {"input": "a", "model": "up-p"}


@each_case(
    ("status", "body", "expected", "code"),
    [
        (429, {"error": {"message": "slow"}}, 429, "rate_limit"),
        (501, {"error": {"message": "This server does not support embeddings"}}, 400, "unsupported"),
        (422, {"detail": "bad"}, 400, "invalid_request"),
        (401, {"error": {"message": "bad key"}}, 502, "authentication"),
        (404, {"detail": "Not Found"}, 404, "not_found"),
        (200, {"error": {"message": "failed", "type": "server_error"}}, 502, "server_error"),
    ],
)
def test_an_error_of_the_server_is_told_in_the_form_of_the_path(
    gateway: Gateway, status: int, body: Any, expected: int, code: str
) -> None:
    for path in ("/v1/embeddings", "/v1/embed"):
        answer = gateway.send(path, {"model": "e", "input": "a"}, whole(body, status))
        assert answer.status == expected
        assert (answer.json["error"] if path == "/v1/embeddings" else answer.json)["code"] == code


def test_a_server_without_the_endpoint_keeps_its_other_requests(gateway: Gateway) -> None:
    for _ in range(6):
        gateway.send("/v1/embeddings", {"model": "e", "input": "a"}, whole({"error": {"message": "no"}}, 501))
    assert all(state.open_until is None for state in gateway.context.upstreams if state.name == "e")


def test_another_server_of_the_model_is_asked_after_a_failure(gateway: Gateway) -> None:
    answer = gateway.send("/v1/embeddings", {"model": "retried", "input": "a"}, whole({}, 500), whole(VECTORS))
    assert (answer.status, answer.json["model"]) == (200, "retried")
    assert len(gateway.sent) == 2


def test_a_fallback_of_the_same_vector_space_answers_in_its_own_name(gateway: Gateway) -> None:
    answer = gateway.send("/v1/embeddings", {"model": "falls", "input": "a"}, whole({}, 500), whole(VECTORS))
    assert (answer.status, answer.json["model"]) == (200, "same")
    assert [body["model"] for _, body in gateway.sent] == ["falls", "same"]
    assert gateway.last.fallback_model == "same"


def test_a_stream_of_a_completion_asks_for_its_usage_and_keeps_it_back(gateway: Gateway) -> None:
    text = b'data: {"choices": [{"index": 0, "text": "x", "finish_reason": "stop"}], "model": "up"}\n\n'
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}\n\n'
    done = b"data: [DONE]\n\n"
    answer = gateway.send("/v1/completions", {"model": "c", "prompt": "a", "stream": True}, streamed(text, usage, done))
    assert answer.body == text + done
    assert answer.headers["content-type"] == "text/event-stream"
    assert gateway.sent[0][1]["stream_options"] == {"include_usage": True}
    assert gateway.last.tokens.total == 2


def test_a_stream_that_is_cut_off_ends_with_an_error(gateway: Gateway) -> None:
    text = b'data: {"choices": [{"index": 0, "text": "x", "finish_reason": null}]}\n\n'
    answer = gateway.send("/v1/completions", {"model": "c", "prompt": "a", "stream": True}, streamed(text))
    assert answer.body.startswith(text)
    assert json.loads(answer.body[len(text) + 6 :])["error"]["code"] == "upstream_incomplete"
    assert b"[DONE]" not in answer.body
    assert gateway.last.error == "upstream_incomplete"


def test_speech_passes_as_bytes(gateway: Gateway) -> None:
    sound = httpx.Response(200, content=b"\x00\xff", headers={"content-type": "audio/mpeg", "x-secret": "1"})
    answer = gateway.send("/v1/audio/speech", {"model": "t", "input": "Hi", "voice": "a"}, sound)
    assert (answer.body, answer.headers["content-type"]) == (b"\x00\xff", "audio/mpeg")
    assert "x-secret" not in answer.headers
    assert gateway.last.tokens_estimated


def test_models_are_listed_with_what_they_serve(gateway: Gateway) -> None:
    listed = {row["id"]: row["endpoints"] for row in gateway.get("/v1/models").json["data"]}
    assert (listed["m"], listed["e"], listed["p"]) == (["chat"], ["embeddings"], ENDPOINTS["p"])


def make_form(*names: str) -> bytes:
    """Return a form with these fields, of which `file` is a long file."""
    values = {"model": b"w", "file": b"x" * 3_000_000, "response_format": b"json"}
    lines = [b"--XX\r\ncontent-disposition: form-data; name=" + name.encode() for name in names]
    files = [b'; filename="a.wav"' if name == "file" else b"" for name in names]
    parts = [line + file + b"\r\n\r\n" + values[name] for line, file, name in zip(lines, files, names, strict=True)]
    return b"\r\n".join([*parts, b"--XX--\r\n"])


def send_form(gateway: Gateway, form: bytes, *answers: httpx.Response, path: str = "/v1/audio/transcriptions") -> Any:
    gateway.server.requests.clear()
    gateway.answers = list(answers)
    pieces = [form[at : at + 400_000] for at in range(0, len(form), 400_000)]
    return gateway.ask("POST", path, pieces, {"content-type": "multipart/form-data; boundary=XX"})


@each_case("names", [("model", "file"), ("file", "model", "response_format")])
def test_a_form_passes_with_another_name_of_the_model_before_or_behind_the_file(
    gateway: Gateway, names: tuple[str, ...]
) -> None:
    answer = send_form(gateway, make_form(*names), whole({"text": "Hi", "usage": {"type": "duration", "seconds": 6}}))
    assert (answer.status, answer.json["text"]) == (200, "Hi")
    assert gateway.server.requests[0].content == make_form(*names).replace(b"\r\nw\r\n", b"\r\nup-w\r\n")
    assert gateway.server.requests[0].headers["content-type"] == "multipart/form-data; boundary=XX"
    assert (gateway.last.endpoint, gateway.last.tokens_estimated) == ("audio", False)


def test_a_form_without_a_model_is_refused_or_gets_the_only_one(gateway: Gateway) -> None:
    answer = send_form(gateway, make_form("file"))
    assert (answer.status, answer.json["error"]["param"]) == (400, "model")
    answer = send_form(gateway, make_form("file"), whole({"data": [{}]}), path="/v1/images/edits")
    assert answer.status == 200
    assert b'name="model"\r\n\r\nup-i\r\n--XX' in gateway.server.requests[0].content


def test_a_form_that_is_too_long_is_refused_before_it_has_come(gateway: Gateway) -> None:
    form = make_form("file").replace(b"x" * 3_000_000, b"x" * 27_000_000)
    answer = send_form(gateway, form)
    assert (answer.status, answer.json["error"]["code"]) == (413, "too_large")
    assert gateway.unread > 0


@each_case(
    ("headers", "status"),
    [
        ({"content-type": "multipart/form-data"}, 400),
        ({"content-type": "multipart/form-data; boundary=XX", "content-encoding": "gzip"}, 415),
        ({"content-type": "multipart/form-data; boundary=XX", "content-length": "99999999"}, 413),
        ({"content-type": "text/plain"}, 415),
    ],
)
def test_a_form_that_cannot_be_read_is_refused(gateway: Gateway, headers: dict[str, str], status: int) -> None:
    assert gateway.ask("POST", "/v1/audio/transcriptions", [b"x"], headers).status == status


def test_a_form_is_sent_again_to_another_server(gateway: Gateway) -> None:
    form = make_form("file", "model").replace(b"\r\nw\r\n", b"\r\nheard\r\n")
    answer = send_form(gateway, form, whole({}, 500), whole({"text": "Hi"}))
    assert answer.json == {"text": "Hi"}
    assert [len(request.content) for request in gateway.server.requests] == [len(form)] * 2
