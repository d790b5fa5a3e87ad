"""`rag_cfg`: of a file that is longer than its share the model gets the passages that the question is about."""

import base64
import json
from typing import Any

import httpx
import pytest
from app.access import hash_key

from tests.each_case import each_case
from tests.in_process_gateway import SERVER, Answer, ModelServer, Running

FILLER = "The weather was fine, and nobody said a word about it.\n"
BOOK = FILLER * 4000 + "Invoices must be paid within thirty days.\n" + FILLER * 4000
FILE = "data:text/plain;base64," + base64.b64encode(BOOK.encode()).decode()
QUESTION = "When must an invoice be paid?"
MESSAGES = [{"role": "user", "content": [{"file": FILE}, {"text": QUESTION}]}]
RAG: dict[str, Any] = {"max_ref_token": 2000, "parser_page_size": 200}


def sent(server: ModelServer) -> str:
    """The content of the last message that the model server was sent."""
    content = json.loads(server.requests[-1].content)["messages"][-1]["content"]
    return content if isinstance(content, str) else json.dumps(content)


def ask(gateway: Running, **fields: Any) -> Answer:
    answer = gateway.post("/v1/chat", {"model": "m", "messages": MESSAGES, "stream": False} | fields)
    assert answer.status == 200, answer.body
    return answer


def with_model(**fields: Any) -> dict[str, Any]:
    return SERVER | {"models": {"m": {"upstreams": ["local"], **fields}}}


def test_a_long_file_is_searched_with_the_question() -> None:
    server = ModelServer()
    with Running(with_model(), server) as gateway:
        answer = ask(gateway, rag_cfg=RAG)
    text = sent(server)
    assert "Invoices must be paid within thirty days." in text
    assert len(text) < 15_000
    (warning,) = answer.json["warnings"]
    assert warning.startswith("messages[0].content[0].file: passages 1, 2, ")
    assert "were put in, those that match the question best" in warning


def test_without_rag_cfg_a_file_is_put_in_from_its_beginning() -> None:
    server = ModelServer()
    with Running(with_model(profile={"media": []}), server) as gateway:
        answer = ask(gateway)
    assert sent(server).count(FILLER[:20]) > 7000
    assert answer.json["warnings"] == ["messages[0].content[0].file: the text was cut: it is too long"]


def test_a_model_can_ask_for_it_at_every_endpoint() -> None:
    server = ModelServer()
    part = {"type": "file", "file": {"file_data": FILE, "filename": "book.txt"}}
    messages = [{"role": "user", "content": [part, {"type": "text", "text": QUESTION}]}]
    with Running(with_model(rag_cfg=RAG), server) as gateway:
        ask(gateway)
        by_model = sent(server)
        answer = gateway.post("/v1/chat/completions", {"model": "m", "messages": messages})
    assert answer.status == 200
    for text in (by_model, sent(server)):
        assert "Invoices must be paid" in text
        assert len(text) < 15_000


def test_the_request_comes_before_the_model() -> None:
    server = ModelServer()
    with Running(with_model(rag_cfg=RAG), server) as gateway:
        ask(gateway, rag_cfg=RAG | {"max_ref_token": 250})
    assert len(sent(server)) < 2000


def test_embeddings_come_from_the_upstream_of_the_model() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/chat/completions"):
            return ModelServer.short_reply()
        body = json.loads(request.content)
        vectors = [
            [1.0, 0.0] if "Invoices" in text or number == 0 else [0.0, 1.0] for number, text in enumerate(body["input"])
        ]
        rows = [{"index": number, "embedding": vector} for number, vector in enumerate(vectors)]
        return httpx.Response(200, json={"object": "list", "data": rows[::-1], "model": body["model"]})

    server = ModelServer(answer)
    with Running(with_model(), server) as gateway:
        ask(gateway, rag_cfg=RAG | {"embedding_model": "embed-1", "top_k": 3, "score_threshold": 0.5})
    embedded = json.loads(server.requests[0].content)
    assert (server.requests[0].url.path, embedded["model"]) == ("/v1/embeddings", "embed-1")
    assert embedded["input"][0] == QUESTION
    assert "Invoices must be paid" in sent(server)


@each_case(
    "response",
    [
        httpx.Response(404, json={"error": {"message": "no such model"}}),
        httpx.Response(200, json={"data": []}),
        httpx.Response(200, json={"data": [{"index": 0, "embedding": "AAAA"}]}),
        httpx.Response(200, json={"data": [{"index": 0, "embedding": [1.0]}]}),
        httpx.Response(200, text="<html>"),
    ],
)
def test_without_embeddings_the_words_decide_and_the_caller_is_told(response: httpx.Response) -> None:
    server = ModelServer(
        lambda request: ModelServer.short_reply() if request.url.path.endswith("/chat/completions") else response
    )
    with Running(with_model(), server) as gateway:
        answer = ask(gateway, rag_cfg=RAG | {"embedding_model": "embed-1"})
    assert "Invoices must be paid" in sent(server)
    assert "chosen by their words alone, because embed-1 failed" in answer.json["warnings"][-1]


def test_embeddings_of_different_lengths_are_not_compared() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/chat/completions"):
            return ModelServer.short_reply()
        count = len(json.loads(request.content)["input"])
        rows = [{"index": number, "embedding": [1.0] * (1 + number % 2)} for number in range(count)]
        return httpx.Response(200, json={"data": rows})

    with Running(with_model(), ModelServer(answer)) as gateway:
        warnings = ask(gateway, rag_cfg=RAG | {"embedding_model": "embed-1"}).json["warnings"]
    assert "chosen by their words alone, because embed-1 failed" in warnings[-1]


@each_case(
    ("rag_cfg", "place"),
    [
        ({"max_ref_token": 1}, "rag_cfg.max_ref_token"),
        ({"top_n": 3}, "rag_cfg.top_n"),
        ({"retrieval_type": "vector"}, "rag_cfg"),
        ([], "rag_cfg"),
    ],
)
def test_a_mistake_in_rag_cfg_is_refused_with_its_place(rag_cfg: Any, place: str) -> None:
    with Running(with_model(), ModelServer()) as gateway:
        answer = gateway.post("/v1/chat", {"model": "m", "messages": MESSAGES, "rag_cfg": rag_cfg})
    assert answer.status == 422
    assert [violation["param"] for violation in answer.json["error"]["violations"]] == [place]


def test_what_has_no_effect_is_a_warning() -> None:
    with Running(with_model(), ModelServer()) as gateway:
        answer = ask(gateway, rag_cfg=RAG | {"index_path": "./index"})
    assert "rag_cfg.index_path has no effect: files are searched again in each request" in answer.json["warnings"]


@pytest.mark.parametrize("history", [False, True])
def test_the_question_is_that_of_the_newest_message(history: bool) -> None:
    server = ModelServer()
    messages = [*MESSAGES, {"role": "assistant", "content": "In thirty days."}] if history else []
    later = {"role": "user", "content": [*([] if history else [{"file": FILE}]), {"text": "And the weather?"}]}
    with Running(with_model(), server) as gateway:
        ask(gateway, messages=[*messages, later], rag_cfg=RAG)
    whole = server.requests[-1].content.decode()
    assert "Invoices must be paid" not in whole
    assert "The weather was fine" in whole


def test_a_key_for_some_models_searches_with_no_other_model() -> None:
    server = ModelServer()
    keys = {"a": {"sha256": hash_key("sk-a-0123456789abc"), "models": ["m"]}}
    with Running(with_model() | {"keys": keys}, server) as gateway:
        body = {"model": "m", "messages": MESSAGES, "rag_cfg": RAG | {"embedding_model": "embed-1"}}
        answer = gateway.post("/v1/chat", body, {"authorization": "Bearer sk-a-0123456789abc"})
    assert (answer.status, answer.json["error"]["param"]) == (403, "rag_cfg.embedding_model")
    assert not server.requests
