"""What is stored for a request of `/v1/responses` counts as if the client had sent it."""

import json
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from app.api.kept_reasoning import KeptReasoning
from app.chat.messages import ChatRequest, ToolCall
from app.config.tables.server import Server
from app.errors import Busy, NotFound, TooLarge
from app.formats.body import RejectedRequest, StoredItems, UnresolvedRequest
from app.formats.request_limits import RequestLimits
from app.formats.responses.body import parse_responses_body
from app.responses_api.conversations import Conversations
from app.responses_api.record import InputMemory, ResponseRecord, StoredResponses
from app.runtime.memory_budget import MemoryBudget
from app.state.copies import KINDS
from app.state.sqlite import SqliteDatabase
from app.steps.dropped_reasoning import NOTHING_WANTED, DroppedReasoning
from app.stores.base import StoredValue
from app.stores.memory import MemoryStore
from typing_extensions import override

from tests.api.held_server import code
from tests.each_case import each_case
from tests.in_process_gateway import HELLO, SERVER, STOP, Answer, ModelServer, Running, streamed

KB, MB = 1024, 1024 * 1024
PATHS = ["/v1/responses", "/v1/responses/input_tokens"]


class CountingExecutor(ThreadPoolExecutor):
    calls = 0

    @override
    def submit(self, *arguments: Any, **more: Any) -> "Future[Any]":
        self.calls += 1
        return super().submit(*arguments, **more)


class MemoryWatch(ModelServer):
    """Notes how much memory requests hold when the model server is asked."""

    gateway: Running
    held = 0

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.held = self.gateway.context.budget.held_bytes
        await super().handle_async_request(request)
        return streamed(HELLO, STOP)


def running(server: ModelServer | None = None, **limits: int) -> Running:
    return Running({**SERVER, "cache": {"url": "memory:"}, "server": limits}, server or ModelServer())


def create(gateway: Running, path: str = "/v1/responses", **body: Any) -> Answer:
    return gateway.post(path, {"model": "m", **body})


def message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_a_large_stored_conversation_is_prepared_outside_the_event_loop_and_held_in_memory() -> None:
    server = MemoryWatch()
    with CountingExecutor(2) as executor, running(server) as gateway:
        server.gateway = gateway
        gateway.loop.set_default_executor(executor)
        numbers: list[tuple[int, bool]] = []
        for size in (1000, 600 * KB):
            first = create(gateway, input="x" * size).json
            executor.calls = 0
            assert create(gateway, input="More", previous_response_id=first["id"]).status == 200
            numbers.append((executor.calls, server.held > size))
            executor.calls = 0
            reference = {"type": "item_reference", "id": first["output"][0]["id"]}
            assert create(gateway, input=[reference, message("More")]).status == 200
            numbers.append((executor.calls, server.held > 0))
        # The values are counted, the record is decoded, the request is parsed, then prepared.
        assert numbers == [(0, False), (0, False), (4, True), (4, True)]
        assert json.loads(server.requests[-1].content)["messages"][-1]["content"] == "More"
        assert gateway.context.budget.held_bytes == 0


@pytest.mark.parametrize("path", PATHS)
def test_a_stored_conversation_is_refused_where_the_same_body_is(path: str) -> None:
    with running(max_body_bytes=100 * KB, max_json_values=1000) as gateway:
        long = create(gateway, input="x" * 60 * KB).json["id"]
        longer = create(gateway, input="x" * 60 * KB, previous_response_id=long).json["id"]
        many = create(gateway, input=[message("x")] * 280).json["id"]
        assert create(gateway, path, input="More", previous_response_id=long).status == 200
        refusals = [create(gateway, path, input="More", previous_response_id=id_) for id_ in (longer, many)]
        assert [code(answer) for answer in refusals] == [(413, "too_large")] * 2
        start = "the stored conversation that the request continues has more than"
        messages = [answer.json["error"]["message"] for answer in refusals]
        assert messages == [f"{start} {100 * KB} bytes", f"{start} 1000 JSON values"]


@pytest.mark.parametrize("path", PATHS)
def test_a_stored_conversation_waits_for_no_memory_that_others_hold(path: str) -> None:
    with running(max_body_bytes=MB, max_request_memory_bytes=2 * MB) as gateway:
        small, large = (create(gateway, input="x" * size).json["id"] for size in (1000, 100 * KB))
        with gateway.context.budget.lease() as others:
            others.take(MB)
            assert create(gateway, path, input="More", previous_response_id=small).status == 200
            refused = create(gateway, path, input="More", previous_response_id=large)
            assert code(refused) == (503, "overloaded")
        assert create(gateway, path, input="More", previous_response_id=large).status == 200


LIMITS = RequestLimits(max_messages=2, max_content_items=10, max_functions=10, max_nesting=20)


def parse(references: int) -> Any:
    items = [{"type": "item_reference", "id": f"msg_{'0' * 32}_{number}"} for number in range(references)]
    return parse_responses_body(json.dumps({"model": "m", "input": items}).encode(), LIMITS)


def test_too_many_references_are_refused_before_they_are_looked_up() -> None:
    assert isinstance(parse(2), UnresolvedRequest)
    refused = parse(3)
    assert isinstance(refused, RejectedRequest)
    assert refused.error.to_dict("")["violations"] == [{"param": "input", "message": "more than 2 messages"}]
    with running(max_messages=2) as gateway:
        answer = create(gateway, input=[message("x")] * 3)
        assert answer.json["error"]["violations"] == [{"param": "input", "message": "more than 2 messages"}]


class CountingStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    @override
    async def get(self, key: str) -> StoredValue | None:
        self.read.append(key.rpartition(":")[2])
        return await super().get(key)


def response_id(number: int) -> str:
    return f"resp_{number:032x}"


def item_id(number: int, place: int = 0) -> str:
    return f"msg_{number:032x}_{place}"


def item(id_: str, text: str = "") -> dict[str, Any]:
    return {"type": "message", "id": id_, "role": "assistant", "content": text}


@pytest.mark.anyio
@each_case(
    ("wanted", "found", "read"),
    [
        ([item_id(1), item_id(2), item_id(3)], 3, [3]),  # each response continues the one before it
        ([item_id(3), item_id(3, 1), item_id(3, 7)], 2, [3]),
        ([item_id(3), item_id(9)], 2, [9, 3]),
        ([item_id(8), "msg_of_another_server", item_id(3)], 1, [3, 8]),  # 8 is not stored
    ],
)
async def test_a_record_is_read_once_and_only_if_a_later_one_has_not_its_items(
    wanted: list[str], found: int, read: list[int]
) -> None:
    store = CountingStore()
    stored = StoredResponses(store, enabled=True, ttl_seconds=100, max_bytes=10_000)
    items: list[Any] = []
    for number in (1, 2, 3):
        items = [*items, item(item_id(number)), item(item_id(number, 1))]
        record = ResponseRecord({"id": response_id(number), "model": "m", "status": "completed"}, items, 0)
        await stored.put("a", record)
    other = ResponseRecord({"id": response_id(9), "model": "m", "status": "failed"}, [item(item_id(9))], 0)
    await stored.put("a", other)
    with MemoryBudget(MB).lease() as lease:
        result: StoredItems = await stored.find("a", None, wanted, InputMemory(lease, Server()))
    assert len(result.items) == found and all(result.items[id_]["id"] == id_ for id_ in result.items)
    assert store.read == [response_id(number) for number in read]


@pytest.mark.anyio
async def test_all_records_of_a_request_together_have_its_limits() -> None:
    store = MemoryStore()
    stored = StoredResponses(store, enabled=True, ttl_seconds=100, max_bytes=10**6)
    for number in (1, 2):
        record = ResponseRecord(
            {"id": response_id(number), "model": "m", "status": "completed"},
            [item(item_id(number), "x" * 300 * KB), [0] * 600],
            0,
        )
        await stored.put("a", record)
    wanted = [item_id(1), item_id(2)]
    for limits, error in (
        ({"max_body_bytes": 500 * KB}, TooLarge),
        ({"max_json_values": 1000}, TooLarge),
        ({}, None),
    ):
        with MemoryBudget(8 * MB).lease() as lease:
            memory = InputMemory(lease, Server(**limits))  # type: ignore[arg-type]
            if error is None:
                assert len((await stored.find("a", None, wanted, memory)).items) == 2
                assert memory.read_bytes > 600 * KB and lease.held_bytes > 4 * memory.read_bytes
            else:
                with pytest.raises(error):
                    await stored.find("a", None, wanted, memory)
    with MemoryBudget(MB // 4).lease() as lease, pytest.raises(Busy):
        await stored.find("a", None, wanted, InputMemory(lease, Server()))


class ReadKeys(MemoryStore):
    """Has nothing, and tells the keys that were read."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []

    @override
    async def get(self, key: str) -> StoredValue | None:
        self.keys.append(key)
        return None


@pytest.mark.anyio
async def test_commands_that_print_or_delete_what_a_caller_stored_know_all_kinds_of_keys() -> None:
    store, caller = ReadKeys(), "key a:b"
    turn = DroppedReasoning(0, 1, "messages[0]", {"hash": ToolCall("f", "{}")}, True, True, True)
    await KeptReasoning(store, 1.0).restore(ChatRequest("m", ()), [turn], NOTHING_WANTED, caller)
    await StoredResponses(store, enabled=True, ttl_seconds=1.0, max_bytes=1000).get(caller, "hash")
    conversations = Conversations(store, SqliteDatabase(""), ttl_seconds=1.0, max_bytes=1000, max_items=1)
    with pytest.raises(NotFound):
        await conversations.get(caller, f"conv_{'0' * 32}")
    assert sorted(key.rpartition(":")[0] for key in store.keys) == sorted(f"{kind}:{caller}" for kind in KINDS)
