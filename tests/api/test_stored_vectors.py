"""Embeddings that are stored by their inputs, through the whole gateway."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running

Json = dict[str, Any]
PATH = "/v1/embeddings"


def embed(request: httpx.Request) -> httpx.Response:
    """Answer as a server does whose vectors say which text and options they are of, with a token for each letter."""
    body = json.loads(request.content)
    inputs = body["input"] if isinstance(body["input"], list) else [body["input"]]
    if body.get("encoding_format") == "base64":
        vectors: list[Any] = [f"base64 of {one}" for one in inputs]
    else:
        vectors = [[len(str(one)), body.get("dimensions", 0), *map(ord, str(one))] for one in inputs]
    data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    used = sum(len(str(one)) for one in inputs)
    usage = {"prompt_tokens": used, "total_tokens": used}
    return httpx.Response(200, json={"object": "list", "data": data[::-1], "model": body["model"], "usage": usage})


class Gateway:
    def __init__(self, running: Running, server: ModelServer) -> None:
        self.running = running
        self.server = server

    def send(self, input_: Any, headers: dict[str, str] | None = None, path: str = PATH, **fields: Any) -> Answer:
        self.server.requests.clear()
        answer = self.running.post(path, {"model": "e", "input": input_, **fields}, headers)
        self.running.loop.run_until_complete(self._wait_until_stored())
        return answer

    async def _wait_until_stored(self) -> None:
        while self.running.context.cache.storing:
            await asyncio.sleep(0.001)

    @property
    def asked(self) -> list[Any]:
        """The inputs that the server was sent."""
        return [json.loads(request.content)["input"] for request in self.server.requests]

    @property
    def last(self) -> Any:
        """The record of the last request."""
        self.running.context.ended.report()
        return self.running.context.recent.list_newest_first()[0]


@contextmanager
def start(answer: Callable[[httpx.Request], httpx.Response] = embed, **more: Any) -> Iterator[Gateway]:
    model: Json = {
        "upstreams": ["u"],
        "endpoints": ["embeddings"],
        "price": {"input": 1_000_000, "output": 0},
        "max_retries": 0,
    }
    settings: Json = {
        "upstreams": {"u": {"base_url": "http://u.test/v1"}},
        "models": {"e": {**model, **more.pop("model", {})}},
        "cache": {"url": "memory:", "embeddings": True, **more},
        "server": {"log_level": "error"},
    }
    server = ModelServer(answer)
    with Running(settings, server) as running:
        yield Gateway(running, server)


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with start() as found:
        yield found


def vectors(answer: Answer) -> list[Any]:
    assert answer.status == 200, answer.body
    data = answer.json["data"]
    assert [item["index"] for item in data] in (list(range(len(data))), list(range(len(data)))[::-1])
    return [item["embedding"] for item in sorted(data, key=lambda item: int(item["index"]))]


def test_a_batch_asks_the_server_for_what_is_not_known_and_keeps_its_order(gateway: Gateway) -> None:
    first = gateway.send(["bb", "dddd"])
    assert (gateway.asked, first.headers["x-parley-cache"]) == ([["bb", "dddd"]], "miss")
    answer = gateway.send(["a", "bb", "ccc", "dddd"])
    assert gateway.asked == [["a", "ccc"]]
    assert vectors(answer) == [[len(text), 0, *map(ord, text)] for text in ("a", "bb", "ccc", "dddd")]
    assert answer.json["usage"] == {"prompt_tokens": 4, "total_tokens": 4}
    assert (answer.headers["x-parley-cache"], answer.json["model"]) == ("miss", "e")
    assert answer.headers["content-length"] == str(len(answer.body))
    assert (gateway.last.tokens.input, gateway.last.cost) == (4, 4.0)


def test_what_is_known_asks_no_server_and_uses_nothing(gateway: Gateway) -> None:
    first = gateway.send(["a", "bb"])
    answer = gateway.send(["bb", "a", "bb"])
    assert gateway.asked == []
    assert vectors(answer) == [vectors(first)[1], vectors(first)[0], vectors(first)[1]]
    assert answer.json["usage"] == {"prompt_tokens": 0, "total_tokens": 0}
    assert (answer.headers["x-parley-cache"], "age" in answer.headers) == ("hit", True)
    assert (gateway.last.tokens.total, gateway.last.cost) in ((0, 0.0), (0, None))


def test_one_text_is_the_same_in_any_form_of_the_request(gateway: Gateway) -> None:
    gateway.send("a")
    assert gateway.asked == ["a"]
    for path, given in ((PATH, ["a"]), ("/embeddings", "a")):
        assert vectors(gateway.send(given, path=path)) == [[1, 0, 97]]
        assert gateway.asked == []
    gateway.send([[1, 2], [3]])
    assert gateway.send([3]).headers["x-parley-cache"] == "hit"


@each_case("fields", [{"dimensions": 3}, {"encoding_format": "base64"}, {"input_type": "query"}])
def test_other_options_have_other_vectors(gateway: Gateway, fields: Json) -> None:
    gateway.send(["a"])
    other = gateway.send(["a"], **fields)
    assert gateway.asked == [["a"]]
    assert vectors(gateway.send(["a"], **fields)) == vectors(other)
    assert gateway.asked == []


def test_an_unknown_option_passes_as_without_a_cache(gateway: Gateway) -> None:
    for _ in range(2):
        assert gateway.send(["a"], late_chunking=True).headers["x-parley-cache"] == "bypass"
        assert gateway.asked == [["a"]]


def test_it_is_off_by_default() -> None:
    with start(embeddings=False) as gateway:
        for _ in range(2):
            assert gateway.send(["a"]).headers["x-parley-cache"] == "bypass"
            assert gateway.asked == [["a"]]


def test_a_model_may_have_no_cache() -> None:
    with start(model={"cache": False}) as gateway:
        for _ in range(2):
            gateway.send(["a"])
            assert gateway.asked == [["a"]]


def test_callers_have_vectors_of_their_own_where_replies_are_theirs() -> None:
    with start(scope="caller") as gateway:
        for name in ("one", "two"):
            gateway.send(["a"], {"authorization": f"Bearer {name}"})
            assert gateway.asked == [["a"]]
        gateway.send(["a"], {"authorization": "Bearer one"})
        assert gateway.asked == []


def test_a_request_chooses_how_it_uses_the_cache(gateway: Gateway) -> None:
    gateway.send(["a"], {"cache-control": "no-store"})
    assert gateway.send(["a"], {"x-parley-cache": "only"}).json["error"]["code"] == "cache_miss"
    assert gateway.asked == []
    gateway.send(["a"])
    assert gateway.send(["a"], {"x-parley-cache": "only"}).status == 200
    assert gateway.send(["a", "b"], {"x-parley-cache": "only"}).status == 504
    assert gateway.send(["a"], {"cache-control": "no-cache"}).headers["x-parley-cache"] == "refresh"
    assert gateway.asked == [["a"]]


def test_gemini_clients_share_what_is_stored(gateway: Gateway) -> None:
    gateway.send(["a"], encoding_format="float")
    gateway.server.requests.clear()
    body = {"requests": [{"model": "models/e", "content": {"parts": [{"text": text}]}} for text in ("b", "a")]}
    answer = gateway.running.post("/v1beta/models/e:batchEmbedContents", body)
    assert [row["values"] for row in answer.json["embeddings"]] == [[1, 0, 98], [1, 0, 97]]
    assert gateway.asked == [["b"]]


def _answer(*data: Json, **fields: Any) -> Callable[[httpx.Request], httpx.Response]:
    return lambda _: httpx.Response(200, json={"object": "list", "data": data, **fields})


@each_case("data", [(), ({"index": 1, "embedding": [1]},), ({"index": 0},), ({"index": 0, "embedding": [1]},) * 2])
def test_an_answer_without_each_vector_is_an_error_only_where_it_must_be_read(data: tuple[Json, ...]) -> None:
    replies = [embed, _answer(*data), _answer(*data)]
    with start(lambda request: replies.pop(0)(request)) as gateway:
        gateway.send(["a"])
        answer = gateway.send(["a", "b"])
        assert (answer.status, answer.json["error"]["code"]) == (502, "upstream_protocol")
        answer = gateway.send(["c"])
        assert (answer.status, answer.json["data"]) == (200, list(data))


@each_case("status", [400, 500])
def test_the_error_of_the_server_is_that_of_the_request(status: int) -> None:
    refusal = httpx.Response(status, json={"error": {"message": "too many words", "type": "x"}})
    replies = [embed, lambda _: refusal, embed]
    with start(lambda request: replies.pop(0)(request)) as gateway:
        gateway.send(["a"])
        answer = gateway.send(["a", "b"])
        assert answer.status == (400 if status == 400 else 502)
        assert "too many words" in answer.body.decode()
        assert vectors(gateway.send(["a", "b"])) == [[1, 0, 97], [1, 0, 98]]


def test_a_server_that_breaks_off_is_an_error_and_nothing_is_stored() -> None:
    whole = embed(httpx.Request("POST", "http://u", json={"model": "e", "input": ["b"]})).content
    cut = httpx.Response(200, content=whole[:-9], headers={"content-type": "application/json"})
    replies = [embed, lambda _: cut, embed]
    with start(lambda request: replies.pop(0)(request)) as gateway:
        gateway.send(["a"])
        assert gateway.send(["a", "b"]).status == 502
        gateway.send(["a", "b"])
        assert gateway.asked == [["b"]]


def test_a_long_answer_is_joined_too(gateway: Gateway) -> None:
    texts = [str(number) * 4000 for number in range(40)]
    gateway.send(texts[::2])
    answer = gateway.send(texts)
    assert gateway.asked == [texts[1::2]]
    assert [len(vector) for vector in vectors(answer)] == [2 + len(text) for text in texts]


def test_vectors_are_deleted_with_the_replies_of_their_model(gateway: Gateway) -> None:
    gateway.send(["a"])
    assert gateway.running.loop.run_until_complete(gateway.running.context.cache.purge("e")) == 1
    gateway.send(["a"])
    assert gateway.asked == [["a"]]
