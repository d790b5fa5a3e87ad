"""More of what users of other gateways reported of requests that are no conversation, all of 2026, tried here. Each
test names the report."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.passing_gateway import SETTINGS, Gateway, whole
from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Pieces, Running, streamed

Json = dict[str, Any]
FORM = {"content-type": "multipart/form-data; boundary=XX"}
BYTES = bytes(range(256)) * 300
PART = b'--XX\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n'


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with Gateway() as running:
        yield running


def write_form(*parts: tuple[str, bytes]) -> bytes:
    """Write a form; the names of files begin with `@`."""
    rows = []
    for name, value in parts:
        head = b'; filename="a.png"\r\nContent-Type: image/png' if name[0] == "@" else b""
        rows.append(PART % (name.lstrip("@").encode(), head, value))
    return b"".join([*rows, b"--XX--\r\n"])


@each_case("path", ["/v1/images/generations", "/v1/images/edits"])
def test_several_images_are_one_request_that_is_not_streamed(gateway: Gateway, path: str) -> None:
    """theopenco/llmgateway pull request 3964; NOirBRight/CodexHub issue 541 (edits with a JSON body)."""
    body = {"model": "i", "prompt": "p", "n": 2, "images": [{"image_url": "data:image/png;base64,AA=="}]}
    images = {"data": [{"b64_json": "AA"}, {"b64_json": "AQ"}]}
    answer = gateway.send(path, body, whole(images))
    assert gateway.sent == [(f"http://i.test{path}", {**body, "model": "up-i"})]
    assert answer.json == images


def test_each_image_and_mask_of_a_form_is_a_file_once(gateway: Gateway) -> None:
    """BerriAI/litellm pull requests 41602 and 41625; vercel/ai issue 14360."""
    parts = (("@image[]", b"A"), ("@image[]", b"B"), ("@mask[]", b"M"), ("@mask[]", b"N"), ("@other", b"O"))
    gateway.server.requests.clear()
    gateway.answers = [whole({"data": []})]
    answer = gateway.post("/v1/images/edits", write_form(*parts, ("model", b"i"), ("prompt", b"p")), FORM)
    assert answer.status == 200
    sent = gateway.server.requests[0]
    assert sent.content == write_form(*parts, ("model", b"up-i"), ("prompt", b"p"))


def test_a_chunked_upload_is_sent_on_whole(gateway: Gateway) -> None:
    """BigPizzaV3/CodexPlusPlus pull request 1496; 0xShug0/audio.cpp pull request 479."""
    data = write_form(("@file", BYTES), ("model", b"w"), ("language", b"de"))
    gateway.server.requests.clear()
    gateway.answers = [whole({"text": "Hi"})]
    pieces = [data[start : start + 997] for start in range(0, len(data), 997)]
    answer = gateway.ask("POST", "/v1/audio/transcriptions", pieces, FORM)
    assert (answer.status, answer.json) == (200, {"text": "Hi"})
    [sent] = gateway.server.requests
    assert sent.content == write_form(("@file", BYTES), ("model", b"up-w"), ("language", b"de"))


def complete(text: str | None, finish: str | None = None, usage: Json | None = None) -> bytes:
    choices = [] if text is None and finish is None else [{"index": 0, "text": text, "finish_reason": finish}]
    return b"data: %b\n\n" % json.dumps({"id": "c", "model": "up-c", "choices": choices, "usage": usage}).encode()


USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def test_a_stream_of_text_is_a_stream_and_is_billed(gateway: Gateway) -> None:
    """api7/aisix issue 1093; mlflow/mlflow pull request 24283 (a last frame without a text)."""
    frames = (complete("O"), complete("K"), complete(None, "stop"), complete(None, usage=USAGE), b"data: [DONE]\n\n")
    answer = gateway.send("/v1/completions", {"model": "c", "prompt": "p", "stream": True}, streamed(*frames))
    assert answer.status == 200
    texts = [choice["text"] for line in answer.body.split(b"\n\n")[:-2] for choice in json.loads(line[6:])["choices"]]
    assert texts == ["O", "K", None]
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert (gateway.last.tokens.input, gateway.last.tokens.output) == (3, 2)


def test_a_whole_completion_keeps_its_usage(gateway: Gateway) -> None:
    """router-for-me/CLIProxyAPI pull request 1618."""
    body = {"choices": [{"index": 0, "text": "OK", "finish_reason": "stop"}], "usage": USAGE, "model": "up-c"}
    answer = gateway.send("/v1/completions", {"model": "c", "prompt": "p"}, whole(body))
    assert answer.json == {**body, "model": "c"}
    assert (gateway.last.tokens.input, gateway.last.tokens.output) == (3, 2)


def test_vectors_of_messages_need_no_input(gateway: Gateway) -> None:
    """BerriAI/litellm issue 31178: vLLM takes pictures for vectors as messages."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    body = {"model": "e", "messages": [{"role": "user", "content": [picture]}], "encoding_format": "float"}
    answer = gateway.send("/v1/embeddings", body, whole({"data": [{"index": 0, "embedding": [0.5]}]}))
    assert (answer.status, gateway.sent[0][1]) == (200, {**body, "model": "up-e"})


def test_what_a_server_says_of_an_encoding_reaches_the_client(gateway: Gateway) -> None:
    """stevereiner/flexible-graphrag issue 17: the words of the refusal were lost."""
    text = "encoding_format base64 is not supported, use float"
    refusal = whole({"error": {"message": text, "type": "invalid_request_error", "param": "encoding_format"}}, 400)
    answer = gateway.send("/v1/embeddings", {"model": "e", "input": "a", "encoding_format": "base64"}, refusal)
    assert answer.status == 400
    assert text in answer.json["error"]["message"]


def test_a_field_that_a_server_demands_is_a_default_of_the_model() -> None:
    """joshuaswarren/remnic pull request 118: a server that refuses a body without `encoding_format`."""
    model = {**SETTINGS["models"]["e"], "defaults": {"extra_body": {"encoding_format": "float"}}}
    server = ModelServer(lambda _: whole({"data": []}))
    with Running({**SETTINGS, "models": {"e": model}}, server) as gateway:
        for given in ({}, {"encoding_format": "base64"}):
            gateway.post("/v1/embeddings", {"model": "e", "input": "a", **given})
    assert [json.loads(one.content)["encoding_format"] for one in server.requests] == ["float", "base64"]


def test_no_format_of_speech_is_chosen_for_the_client(gateway: Gateway) -> None:
    """lemonade-sdk/lemonade issue 2655."""
    body = {"model": "t", "input": "hello", "stream": True}
    sent = httpx.Response(200, headers={"content-type": "audio/wav"}, stream=Pieces([b"RIFF", BYTES]))
    answer = gateway.send("/v1/audio/speech", body, sent)
    assert gateway.sent[0][1] == {**body, "model": "up-t"}
    assert (answer.headers["content-type"], answer.body) == ("audio/wav", b"RIFF" + BYTES)


@each_case("status", [400, 429, 503])
def test_an_error_of_speech_has_its_status_and_words(gateway: Gateway, status: int) -> None:
    """BerriAI/litellm pull request 38868; huggingface/speech-to-speech issue 531 (an error is never played)."""
    refusal = whole({"error": {"message": "only pcm and wav", "code": None}}, status)
    answer = gateway.send("/v1/audio/speech", {"model": "t", "input": "a", "response_format": "mp3"}, refusal)
    assert answer.status == status
    assert answer.headers["content-type"].startswith("application/json")
    assert "only pcm and wav" in answer.json["error"]["message"]


def test_vectors_keep_the_order_and_the_index_of_their_server(gateway: Gateway) -> None:
    """getzep/graphiti pull request 1732; BaseIntelligence/bounty-challenge issue 16010."""
    rows = [{"index": at, "embedding": [float(at)]} for at in (2, 0, 1)]
    body = {"model": "e", "input": ["a", "b", "c"]}
    assert gateway.send("/v1/embeddings", body, whole({"data": rows})).json["data"] == rows
    requests = {"requests": [{"content": {"parts": [{"text": text}]}} for text in "abc"]}
    answer = gateway.send("/v1beta/models/e:batchEmbedContents", requests, whole({"data": rows}))
    assert [one["values"] for one in answer.json["embeddings"]] == [[0.0], [1.0], [2.0]]


@each_case(
    "indices",
    [(0, 0), (0, 2), (-1, 0), ("0", "x"), (0,), (0, 1, 2), (True, False)],
)
def test_vectors_that_fit_no_input_are_never_given_out_as_geminis(gateway: Gateway, indices: tuple[Any, ...]) -> None:
    """mgerasolo/knowledge issue 141; BaseIntelligence/bounty-challenge issue 15779."""
    rows = [{"index": at, "embedding": [0.5]} for at in indices]
    requests = {"requests": [{"content": {"parts": [{"text": text}]}} for text in "ab"]}
    answer = gateway.send("/v1beta/models/e:batchEmbedContents", requests, whole({"data": rows}))
    assert (answer.status, answer.json["error"]["status"]) == (502, "INTERNAL")


@each_case(("param", "told"), [("input", "input"), ("x" * 300, None), (["input"], None), (None, None)])
def test_the_parameter_that_a_server_refuses_is_the_clients_own(gateway: Gateway, param: Any, told: str | None) -> None:
    """antiwork/gumroad pull request 4709; lemonade-sdk/lemonade issue 2655."""
    error = {"message": "Number of images (2) exceeds maximum of 1", "param": param, "code": "too_many_images"}
    answer = gateway.send("/v1/moderations", {"model": "p", "input": ["a"]}, whole({"error": error}, 400))
    assert (answer.status, answer.json["error"]["param"]) == (400, told)
    assert "exceeds maximum" in answer.json["error"]["message"]
