"""`/v1/conversations`, and responses that go on with one."""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.errors import ConversationLocked, NotFound
from app.responses_api.conversations import LOCK_SECONDS, Conversations
from app.responses_api.record import InputMemory
from app.state import Database, open_database
from app.stores import StoreLimits
from app.stores.database import DatabaseStore

from tests.each_case import each_case
from tests.in_process_gateway import HELLO, SERVER, Answer, ModelServer, Running, streamed
from tests.state.databases import KINDS, make_address

Json = dict[str, Any]
URL = "/v1/conversations"
ASK: Json = {"model": "m", "input": "hi"}
USER: Json = {"role": "user", "content": "My name is Ann."}


@pytest.fixture
def server() -> ModelServer:
    return ModelServer()


@pytest.fixture
def gateway(tmp_path: Path, server: ModelServer) -> Iterator[Running]:
    with Running(settings(tmp_path), server) as running:
        yield running


def settings(folder: Path, **more: Any) -> Json:
    return {**SERVER, "state": {"url": f"sqlite:///{folder}/state.db"}, **more}


def create(gateway: Running, **fields: Any) -> str:
    answer = gateway.post(URL, fields)
    assert answer.status == 200, answer.body
    id_: str = answer.json["id"]
    return id_


def respond(gateway: Running, id_: str, **fields: Any) -> Answer:
    return gateway.post("/v1/responses", {**ASK, "conversation": id_, **fields})


def list_texts(gateway: Running, id_: str) -> list[Any]:
    items = gateway.get(f"{URL}/{id_}/items?order=asc").json["data"]
    return [item["content"] if isinstance(item["content"], str) else item["content"][0]["text"] for item in items]


def sent_texts(server: ModelServer) -> list[Any]:
    return [message["content"] for message in json.loads(server.requests[-1].content)["messages"]]


def test_a_conversation_is_created_read_changed_and_deleted(gateway: Running) -> None:
    id_ = create(gateway, metadata={"a": "b"})
    found = gateway.get(f"{URL}/{id_}").json
    assert (found["object"], found["metadata"], found["created_at"] > 0) == ("conversation", {"a": "b"}, True)
    assert gateway.post(f"{URL}/{id_}", {"metadata": {"c": "d"}}).json["metadata"] == {"c": "d"}
    assert gateway.ask("DELETE", f"{URL}/{id_}").json == {"id": id_, "object": "conversation.deleted", "deleted": True}
    for method in ("GET", "DELETE"):
        assert gateway.ask(method, f"{URL}/{id_}").status == 404
    assert gateway.post(f"{URL}/{id_}/items", {"items": [USER]}).status == 404


def test_its_items_are_listed_in_pages_added_read_and_deleted(gateway: Running) -> None:
    id_ = create(gateway)
    added = gateway.post(f"{URL}/{id_}/items", {"items": [USER, {**USER, "content": "two"}]}).json
    assert [item["content"][0]["text"] for item in added["data"]] == ["My name is Ann.", "two"]
    first, second = (item["id"] for item in added["data"])
    page = gateway.get(f"{URL}/{id_}/items?limit=1").json
    assert (page["first_id"], page["has_more"]) == (second, True)
    assert gateway.get(f"{URL}/{id_}/items?after={second}").json["data"] == [added["data"][0]]
    assert gateway.get(f"{URL}/{id_}/items/{first}").json == added["data"][0]
    assert gateway.ask("DELETE", f"{URL}/{id_}/items/{first}").json["id"] == id_
    assert gateway.get(f"{URL}/{id_}/items/{first}").status == 404
    assert list_texts(gateway, id_) == ["two"]


@each_case(
    ("method", "path", "body", "status", "param"),
    [
        ("POST", "", {"items": [USER] * 21}, 400, "items"),
        ("POST", "", {"items": [{"role": "bot", "content": "x"}]}, 400, "items[0].role"),
        ("POST", "", {"items": [{"id": "msg_1"}]}, 400, "items"),
        ("POST", "", {"metadata": {"a": 1}}, 400, "metadata.a"),
        ("POST", "", {"items": [{**USER, "other": float("inf")}]}, 400, "items[0].other"),
        ("GET", "/none", None, 404, None),
        ("POST", "/%00/items", {"items": [USER]}, 404, None),
        ("POST", "/ID", {}, 400, "metadata"),
        ("POST", "/ID/items", {"items": []}, 400, "items"),
        ("GET", "/ID/items?limit=0", None, 400, "limit"),
        ("GET", "/ID/items?after=none", None, 400, "after"),
        ("PUT", "/ID", None, 405, None),
        ("GET", "", None, 405, None),
    ],
)
def test_a_mistake_is_refused_at_its_place(
    gateway: Running, method: str, path: str, body: Any, status: int, param: str | None
) -> None:
    path = path.replace("ID", create(gateway))
    answer = gateway.ask(
        method, f"{URL}{path}", [b"" if body is None else json.dumps(body).replace("Infinity", "1e999").encode()]
    )
    error = answer.json["error"]
    assert (answer.status, error.get("param")) == (status, param)


def test_responses_go_on_with_it_and_are_added(gateway: Running, server: ModelServer) -> None:
    id_ = create(gateway, items=[USER])
    made = respond(gateway, id_).json
    assert made["conversation"] == {"id": id_}
    assert sent_texts(server) == ["My name is Ann.", "hi"]
    frames = respond(gateway, id_, conversation={"id": id_}, input="sure?", store=False, stream=True).frames
    assert frames[-1]["response"]["conversation"] == {"id": id_}
    assert sent_texts(server) == ["My name is Ann.", "hi", "Hello", "sure?"]
    assert list_texts(gateway, id_) == ["My name is Ann.", "hi", "Hello", "sure?", "Hello"]
    ids = [item["id"] for item in gateway.get(f"{URL}/{id_}/items").json["data"]]
    assert len(set(ids)) == 5
    count = gateway.post("/v1/responses/input_tokens", {**ASK, "conversation": id_}).json["input_tokens"]
    assert count > gateway.post("/v1/responses/input_tokens", ASK).json["input_tokens"]
    assert respond(gateway, id_, input=None).status == 200
    assert len(list_texts(gateway, id_)) == 6


def test_a_response_that_fails_adds_nothing(tmp_path: Path) -> None:
    answers = [httpx.Response(400, json={"error": {"message": "no"}}), streamed(HELLO), ModelServer.short_reply()]
    with Running(settings(tmp_path), ModelServer(lambda _: answers.pop(0))) as gateway:
        id_ = create(gateway)
        assert respond(gateway, id_).status == 400
        assert respond(gateway, id_, stream=True).frames[-1]["type"] == "response.failed"
        assert list_texts(gateway, id_) == []
        assert respond(gateway, id_).status == 200


@each_case(
    ("fields", "status", "param"),
    [
        ({"conversation": "conv_none"}, 404, "conversation"),
        ({"conversation": {"id": 3}}, 400, "conversation"),
        ({"conversation": 3}, 400, "conversation"),
        ({"previous_response_id": "resp_1"}, 400, "conversation"),
        ({"background": True}, 400, "background"),
        ({"input": 3}, 400, "input"),
    ],
)
def test_a_request_that_cannot_go_on_with_it_is_refused(
    gateway: Running, fields: Json, status: int, param: str
) -> None:
    answer = respond(gateway, create(gateway), **fields)
    assert (answer.status, answer.json["error"]["param"]) == (status, param)


def test_without_a_state_database_there_are_none(server: ModelServer) -> None:
    with Running(SERVER, server) as gateway:
        answer = gateway.post(URL, {})
        assert (answer.status, "state.url" in answer.json["error"]["message"]) == (404, True)
        assert gateway.get(f"{URL}/conv_1/items").status == 404
        answer = respond(gateway, "conv_1")
        assert (answer.status, answer.json["error"]["param"]) == (400, "conversation")


def test_a_conversation_belongs_to_its_caller(tmp_path: Path, server: ModelServer) -> None:
    keys = {name: {"sha256": hashlib.sha256(name.encode()).hexdigest()} for name in ("one", "two")}
    with Running(settings(tmp_path, keys=keys), server) as gateway:
        one, two = ({"authorization": f"Bearer {name}"} for name in keys)
        id_ = gateway.post(URL, {}, one).json["id"]
        assert gateway.get(f"{URL}/{id_}", one).status == 200
        assert gateway.get(f"{URL}/{id_}", two).status == 404
        assert gateway.post("/v1/responses", {**ASK, "conversation": id_}, two).status == 404
        assert gateway.ask("DELETE", f"{URL}/{id_}", headers=two).status == 404


def test_a_second_response_at_once_is_told_to_wait(tmp_path: Path) -> None:
    gate, started = asyncio.Event(), asyncio.Event()

    class Slow(ModelServer):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            started.set()
            await gate.wait()
            return await super().handle_async_request(request)

    with Running(settings(tmp_path), Slow()) as gateway:
        id_ = create(gateway)
        body = json.dumps({**ASK, "conversation": id_}).encode()
        first = gateway.loop.create_task(gateway.ask_async("POST", "/v1/responses", [body]))
        gateway.loop.run_until_complete(asyncio.wait_for(started.wait(), 10))
        second = respond(gateway, id_)
        assert (second.status, second.json["error"]["code"]) == (409, "conversation_locked")
        assert second.headers["retry-after"] == "1"
        assert gateway.post(f"{URL}/{id_}/items", {"items": [USER]}).status == 409
        assert gateway.ask("DELETE", f"{URL}/{id_}").status == 200
        gate.set()
        made = gateway.loop.run_until_complete(first).json
        assert (
            made["parley"]["warnings"][-1] == "conversation: input and output were not added: it was deleted meanwhile"
        )


def test_it_may_not_become_too_long(tmp_path: Path, server: ModelServer) -> None:
    with Running(settings(tmp_path, server={"max_messages": 3}), server) as gateway:
        id_ = create(gateway, items=[USER])
        assert respond(gateway, id_).status == 200
        answer = respond(gateway, id_)
        assert (answer.status, answer.json["error"]["param"]) == (400, "input")
        assert gateway.post(f"{URL}/{id_}/items", {"items": [USER]}).status == 413


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    database = open_database(make_address(request.param, tmp_path))
    yield database
    database.close()


@pytest.mark.anyio
async def test_a_lock_expires_and_a_late_response_adds_nothing(gateway: Running, database: Database) -> None:
    clock = Clock()
    store = DatabaseStore(database, StoreLimits(clock=clock))
    kept = Conversations(store, database, ttl_seconds=500, max_bytes=10_000, max_items=10, clock=clock)
    id_ = (await kept.create("c", {}, [])).id
    memory = InputMemory(gateway.context.budget.lease(), gateway.context.server)
    used = await kept.find("c", id_, memory)
    assert used is not None
    async with kept.hold("c", used) as lost:
        clock.now += LOCK_SECONDS + 1
        with pytest.raises(NotFound):
            await kept.get("other", id_)
        async with kept.hold("c", used) as held:
            with pytest.raises(ConversationLocked):
                await kept.change("c", id_, lambda found: found)
            assert await held.append([{"id": "a"}]) is None
        assert await lost.append([{"id": "b"}]) == "it was changed meanwhile"
    assert (await kept.get("c", id_)).items == [{"id": "a"}]
    changed = await kept.find("c", id_, memory)
    assert changed is not None and changed.stored_at > used.stored_at
    clock.now += 400  # a response uses it again before it expires
    async with kept.hold("c", changed):
        pass
    clock.now += 400
    assert await kept.find("c", id_, memory) is not None
    clock.now += 200
    assert await kept.find("c", id_, memory) is None
    await store.aclose()
