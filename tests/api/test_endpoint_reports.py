"""What users of other gateways reported of requests that are no conversation, tried here. Each test names the
report."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.passing_gateway import Gateway, whole
from tests.each_case import each_case
from tests.in_process_gateway import streamed

Json = dict[str, Any]
FORM = {"content-type": "multipart/form-data; boundary=XX"}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with Gateway() as running:
        yield running


def write_form(*parts: tuple[str, str]) -> bytes:
    """Write a form; the names of files begin with `@`."""
    rows = []
    for name, value in parts:
        file = f'; filename="{name[1:]}.png"\r\nContent-Type: image/png' if name[0] == "@" else ""
        rows.append(f'--XX\r\nContent-Disposition: form-data; name="{name.lstrip("@")}"{file}\r\n\r\n{value}\r\n')
    return "".join([*rows, "--XX--\r\n"]).encode()


def post_form(gateway: Gateway, path: str, data: bytes, *answers: httpx.Response) -> Any:
    gateway.server.requests.clear()
    gateway.answers = list(answers)
    return gateway.post(path, data, FORM)


@each_case("size", [3, 600_000])
def test_vectors_in_base64_pass_as_they_are(gateway: Gateway, size: int) -> None:
    """api7/aisix issue 393; agentgateway/agentgateway issue 1619."""
    vector = base64.b64encode(bytes(size) * 4).decode()
    body = {"object": "list", "data": [{"index": 0, "embedding": vector}], "usage": {"prompt_tokens": 2}}
    answer = gateway.send("/v1/embeddings", {"model": "e", "input": "a", "encoding_format": "base64"}, whole(body))
    assert (answer.status, answer.json) == (200, body)
    assert gateway.sent[0][1]["encoding_format"] == "base64"
    assert gateway.last.tokens.input == 2


@each_case(
    "fields",
    [{}, {"dimensions": 256}, {"input": [[57668, 53901], [1]]}, {"input": [15339, 1917]}, {"encoding_format": "float"}],
)
def test_a_request_for_embeddings_has_what_its_client_sent(gateway: Gateway, fields: Json) -> None:
    """BerriAI/litellm pull request 38774, issue 10113; Kilo-Org/cloud pull request 3375; langchain-ai/langchain issue
    30574."""
    gateway.send("/v1/embeddings", {"model": "e", "input": "a", **fields}, whole({"data": []}))
    assert gateway.sent[0][1] == {"model": "up-e", "input": "a", **fields}


def test_the_size_of_geminis_vectors_is_asked_for(gateway: Gateway) -> None:
    """quangdang46/openproxy issue 263."""
    body = {"content": {"parts": [{"text": "a"}]}, "outputDimensionality": 256}
    gateway.send("/v1beta/models/e:embedContent", body, whole({"data": [{"embedding": [1.0]}]}))
    assert gateway.sent[0][1] == {"model": "up-e", "input": ["a"], "dimensions": 256, "encoding_format": "float"}


def test_each_field_of_a_form_passes_also_those_that_are_repeated(gateway: Gateway) -> None:
    """BerriAI/litellm issue 35937; ROCm/FastFlowLM pull request 510; TU-Wien-dataLAB/aqueduct pull request 92."""
    fields = [
        ("timestamp_granularities[]", "segment"),
        ("timestamp_granularities[]", "word"),
        *(("response_format", "verbose_json"), ("language", "de"), ("prompt", "Hm"), ("temperature", "0.5")),
    ]
    answer = post_form(
        gateway,
        "/v1/audio/transcriptions",
        write_form(("@file", "RIFF"), *fields, ("model", "w")),
        whole({"text": "Hi", "duration": 2.5, "segments": [{"id": 0}], "words": [{"word": "Hi"}]}),
    )
    assert answer.json["segments"] and answer.json["words"]
    assert gateway.server.requests[0].content == write_form(("@file", "RIFF"), *fields, ("model", "up-w"))


def test_a_form_with_one_mask_has_one_also_when_it_is_sent_again(gateway: Gateway) -> None:
    """ding113/claude-code-hub issue 1141; BerriAI/litellm issue 26552."""
    parts = (("@image[]", "A"), ("@image[]", "B"), ("@mask", "M"), ("prompt", "p"))
    data = write_form(("model", "i"), *parts)
    answer = post_form(gateway, "/v1/images/edits", data, whole({}, 500), whole({"data": []}))
    assert answer.status in (200, 502)
    assert {request.content for request in gateway.server.requests} == {write_form(("model", "up-i"), *parts)}


def test_what_a_ranking_lacks_is_told_by_its_server(gateway: Gateway) -> None:
    """volcengine/OpenViking issue 4027; mudler/LocalAI issue 6700."""
    text = "payload validation: missing required top_n number field"
    refusal = whole({"status": 400, "error": "BAD REQUEST", "message": text}, 400)
    answer = gateway.send("/v1/rerank", {"model": "r", "query": "q", "documents": ["a"]}, refusal)
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")
    assert text in answer.json["error"]["message"]
    gateway.send("/v1/rerank", {"model": "r", "query": "q", "documents": ["a"], "top_n": 1}, whole({"results": []}))
    assert gateway.sent[0][1]["top_n"] == 1


def completion(text: str, finish: str | None = None, **fields: Any) -> bytes:
    choice = {"index": 0, "text": text, "finish_reason": finish, **fields}
    return b"data: %b\n\n" % json.dumps({"id": "c", "object": "text_completion", "choices": [choice]}).encode()


def test_a_stream_that_only_the_server_takes_for_one_is_honest(gateway: Gateway) -> None:
    """vllm-project/vllm issue 15119: `stream` is a string, which servers read as true."""
    body = {"model": "c", "prompt": "a", "stream": "true"}
    answer = gateway.send("/v1/completions", body, streamed(completion(" city"), completion("", "stop")))
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert len(answer.frames) == 2
    cut = gateway.send("/v1/completions", body, streamed(completion(" city")))
    assert cut.frames[-1]["error"]["code"] == "upstream_incomplete"


def test_the_options_of_old_completions_pass(gateway: Gateway) -> None:
    """raullenchai/Rapid-MLX issue 461."""
    options = {"echo": True, "logprobs": 3, "n": 0, "best_of": 2, "suffix": "s", "stop": None}
    gateway.send("/v1/completions", {"model": "c", "prompt": "a", **options}, whole({"choices": []}))
    assert gateway.sent[0][1] == {"model": "up-c", "prompt": "a", **options}


def test_a_finish_reason_beside_probabilities_stays(gateway: Gateway) -> None:
    """BerriAI/litellm issue 10686."""
    last = completion("x", "length", logprobs={"tokens": ["x"], "token_logprobs": [-0.5]})
    sent = streamed(completion("a", logprobs={"tokens": ["a"]}), last, b"data: [DONE]\n\n")
    answer = gateway.send("/v1/completions", {"model": "c", "prompt": "a", "stream": True}, sent)
    assert answer.body.endswith(last + b"data: [DONE]\n\n")


def test_a_web_page_is_no_answer(gateway: Gateway) -> None:
    """maximhq/bifrost issue 2288."""
    page = httpx.Response(200, text="\n\n<!DOCTYPE html>\n<html></html>", headers={"content-type": "text/html"})
    for path in ("/v1/embeddings", "/v2/embed"):
        answer = gateway.send(path, {"model": "e", "input": "a"}, page)
        error = answer.json.get("error", answer.json)
        assert (answer.status, error["code"]) == (502, "upstream_protocol")


def test_speech_comes_as_it_is_made(gateway: Gateway) -> None:
    """gpustack/gpustack issue 4719; BerriAI/litellm pull request 38798; SillyTavern/SillyTavern pull request 5717."""
    pieces = [bytes([number]) * 1000 for number in range(5)]
    sent = streamed(*pieces)
    sent.headers["content-type"] = "audio/pcm"
    answer = gateway.send("/v1/audio/speech", {"model": "t", "input": "Hi", "voice": "v"}, sent)
    assert (answer.headers["content-type"], answer.body) == ("audio/pcm", b"".join(pieces))


def test_the_model_of_a_moderation_is_named_as_at_its_server(gateway: Gateway) -> None:
    """BerriAI/litellm issues 6020 and 4336."""
    images = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    answer = gateway.send("/v1/moderations", {"model": "p", "input": images}, whole({"results": [], "model": "up-p"}))
    assert (answer.json["model"], gateway.sent[0][1]) == ("p", {"model": "up-p", "input": images})


def test_the_ranking_of_text_embeddings_inference_is_a_list(gateway: Gateway) -> None:
    """BerriAI/litellm issue 8372."""
    body = {"query": "q", "texts": ["a", "b"], "raw_scores": False, "model": "r"}
    answer = gateway.send("/rerank", body, whole([{"index": 1, "score": 0.5}], x_compute_tokens="7"))
    assert answer.json == [{"index": 1, "score": 0.5}]
    assert gateway.last.tokens.input == 7


def test_tokens_are_found_beside_nulls(gateway: Gateway) -> None:
    """xorbitsai/inference pull request 1657."""
    meta = {"api_version": None, "billed_units": None, "tokens": {"input_tokens": 5, "output_tokens": 0}}
    answer = gateway.send("/v1/rerank", {"model": "r", "query": "q", "documents": ["a"]}, whole({"meta": meta}))
    assert answer.json == {"meta": meta}
    assert (gateway.last.tokens.input, gateway.last.tokens_estimated) == (5, False)


def test_a_document_that_is_null_stays(gateway: Gateway) -> None:
    """joonsoome/embed-rerank issue 11."""
    results = [{"index": 0, "relevance_score": 0.5, "document": None}]
    answer = gateway.send("/v2/rerank", {"model": "r", "query": "q", "documents": ["a"]}, whole({"results": results}))
    assert answer.json["results"] == results
