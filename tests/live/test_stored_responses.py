"""The stored responses of two gateway processes that share a Redis, over HTTP: what one of them stored, the other one
reads, continues, cancels and deletes, also when the first one is dead."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import httpx
import pytest
from app.redis.connection import RedisConnection
from app.responses_api.record import ResponseRecord, StoredResponses
from app.stores import open_state_store
from msgspec.structs import replace

from tests.live.gateway import DONE, end, say
from tests.live.gateway_processes import GatewayProcesses, Process, run_gateways
from tests.redis_server import RedisServer
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

TTL_SECONDS = 3600
KEYS = {"alice": "alice-key", "bob": "bob-key"}
ADMIN = "admin-key"
SHORT = Reply([say("Hello"), end(), DONE], chunked=True)


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcesses]:
    with run_gateways(tmp_path_factory.mktemp("gateways")) as one:
        yield one


def hash_key(key: str) -> str:
    return sha256(key.encode()).hexdigest()


def configuration(upstream: ScriptedServer, redis: RedisServer) -> str:
    keys = "".join(f'[keys.{name}]\nsha256 = "{hash_key(key)}"\n' for name, key in KEYS.items())
    return f"""
        passthrough = "local"
        [upstreams.local]
        base_url = "{upstream.url}/v1"
        [cache]
        url = "{redis.url}"
        [responses]
        store_seconds = {TTL_SECONDS}
        {keys}
        [keys.admin]
        sha256 = "{hash_key(ADMIN)}"
        admin = true
    """


class Client(httpx.AsyncClient):
    """One caller of one gateway."""

    def __init__(self, gateway: Process, key: str) -> None:
        url = "http://{}:{}".format(*gateway.address)
        super().__init__(base_url=url, headers={"authorization": f"Bearer {key}"}, trust_env=False, verify=False)

    async def create(self, **body: Any) -> httpx.Response:
        return await self.post("/v1/responses", json={"model": "m", "input": "Hi", **body})

    async def read(self, id_: str, suffix: str = "") -> Any:
        response = await self.get(f"/v1/responses/{id_}{suffix}")
        assert response.status_code == 200, response.text
        return response.json()

    async def until(self, id_: str, status: str) -> None:
        async with asyncio.timeout(10):
            while (await self.read(id_))["status"] != status:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def two_gateways(
    processes: GatewayProcesses, redis: RedisServer, *replies: Reply, server: str = ""
) -> AsyncIterator[tuple[ScriptedServer, Process, Process]]:
    async with ScriptedServer(*replies) as upstream:
        one, other = (processes.start(configuration(upstream, redis), server) for _ in range(2))
        await asyncio.gather(one.until_ready(), other.until_ready())
        try:
            yield upstream, one, other
        finally:
            for gateway in (one, other):
                if gateway.runs:
                    gateway.kill()


def sent_texts(upstream: ScriptedServer) -> list[str]:
    return [message["content"] for message in json.loads(upstream.requests[-1].body)["messages"]]


def find_keys(redis: RedisServer, id_: str) -> list[bytes]:
    with redis.client() as client:
        return list(client.scan_iter(f"*:response:*:{id_}"))


async def test_a_response_of_one_gateway_is_read_continued_and_deleted_at_the_other(
    processes: GatewayProcesses, shared_redis: RedisServer
) -> None:
    async with (
        two_gateways(processes, shared_redis, SHORT) as (upstream, one, other),
        Client(one, KEYS["alice"]) as here,
        Client(other, KEYS["alice"]) as there,
        Client(other, KEYS["bob"]) as stranger,
    ):
        created = (await here.create()).json()
        id_ = created["id"]
        assert await there.read(id_) == created
        items = await there.read(id_, "/input_items")
        assert [(one["type"], one["content"][0]["text"]) for one in items["data"]] == [("message", "Hi")]

        for path in ("", "/input_items"):
            assert (await stranger.get(f"/v1/responses/{id_}{path}")).status_code == 404
        assert (await stranger.delete(f"/v1/responses/{id_}")).status_code == 404
        assert (await stranger.create(previous_response_id=id_)).status_code == 400

        continued = await there.create(previous_response_id=id_, input="And now?")
        assert continued.status_code == 200, continued.text
        assert sent_texts(upstream) == ["Hi", "Hello", "And now?"]

        (key,) = find_keys(shared_redis, id_)
        with shared_redis.client() as client:
            assert TTL_SECONDS - 60 < client.ttl(key) <= TTL_SECONDS

        assert (await there.delete(f"/v1/responses/{id_}")).json()["deleted"] is True
        assert find_keys(shared_redis, id_) == []
        assert (await here.get(f"/v1/responses/{id_}")).status_code == 404
        assert (await here.create(previous_response_id=id_)).status_code == 400
        assert (await here.read(continued.json()["id"]))["status"] == "completed"


async def test_a_background_response_of_one_gateway_is_cancelled_at_the_other(
    processes: GatewayProcesses, shared_redis: RedisServer
) -> None:
    gate = asyncio.Event()
    async with (
        two_gateways(processes, shared_redis, Reply([say("One"), gate], chunked=True)) as (upstream, one, other),
        Client(one, KEYS["alice"]) as here,
        Client(other, KEYS["alice"]) as there,
        Client(other, KEYS["bob"]) as stranger,
        Client(one, ADMIN) as admin,
    ):
        id_ = (await here.create(background=True)).json()["id"]
        await there.until(id_, "in_progress")
        assert "\nparley_background_responses 1.0" in (await admin.get("/metrics")).text
        assert (await stranger.post(f"/v1/responses/{id_}/cancel")).status_code == 404
        cancelled = await there.post(f"/v1/responses/{id_}/cancel")
        assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
        async with asyncio.timeout(10):
            await upstream.connections[-1].closed.wait()
        await here.until(id_, "cancelled")
        async with asyncio.timeout(10):
            while "\nparley_background_responses 0.0" not in (await admin.get("/metrics")).text:
                await asyncio.sleep(0.01)
        gate.set()


async def test_a_background_response_whose_gateway_is_killed_fails_at_the_other_after_its_time(
    processes: GatewayProcesses, shared_redis: RedisServer
) -> None:
    gate = asyncio.Event()
    async with (
        two_gateways(processes, shared_redis, Reply([say("One"), gate], chunked=True)) as (upstream, one, other),
        Client(one, KEYS["alice"]) as here,
        Client(other, KEYS["alice"]) as there,
    ):
        id_ = (await here.create(background=True)).json()["id"]
        await there.until(id_, "in_progress")
        one.kill()
        async with asyncio.timeout(10):
            await upstream.connections[-1].closed.wait()
        assert (await there.read(id_))["status"] == "in_progress"  # the other cannot know yet

        record = await let_time_pass(shared_redis, id_)
        assert record.alive_until is not None and 0 < record.alive_until - time.time() < 100
        failed = await there.read(id_)
        assert (failed["status"], failed["error"]["code"]) == ("failed", "server_error")
        assert "stopped" in failed["error"]["message"]
        assert (await there.create(previous_response_id=id_)).status_code == 400
        assert (await there.delete(f"/v1/responses/{id_}")).status_code == 200
        gate.set()


async def let_time_pass(redis: RedisServer, id_: str) -> ResponseRecord:
    """Store the record as it will be when its gateway has not renewed it in time. Returns it as it was."""
    (key,) = find_keys(redis, id_)
    caller = key.decode().removesuffix(f":{id_}").rpartition("response:")[2]
    connection = RedisConnection(redis.url)
    store = open_state_store(connection)
    try:
        stored = StoredResponses(store, enabled=True, ttl_seconds=TTL_SECONDS, max_bytes=1_000_000)
        record = await stored.get(caller, id_)
        assert record is not None
        await stored.put(caller, replace(record, alive_until=time.time() - 1))
        return record
    finally:
        await connection.aclose()


def read_events(raw: str) -> list[Any]:
    return [json.loads(line[6:]) for line in raw.split("\n") if line.startswith("data: ")]


def without_heartbeats(events: list[Any]) -> list[Any]:
    """The events without their numbers: heartbeats of two gateways come at different times."""
    kept = [event for event in events if event["type"] != "keepalive"]
    return [{key: value for key, value in event.items() if key != "sequence_number"} for event in kept]


async def test_a_client_resumes_after_heartbeats_where_it_stopped_at_either_gateway(
    processes: GatewayProcesses, shared_redis: RedisServer
) -> None:
    gates = [asyncio.Event() for _ in range(3)]
    script: list[bytes | asyncio.Event] = [gates[0], say("One"), gates[1], say("two"), gates[2], end(), DONE]
    quick = "heartbeat_seconds = 0.2\ncommit_seconds = 0.1\n"
    async with (
        two_gateways(processes, shared_redis, Reply(script, chunked=True), server=quick) as (_, one, other),
        Client(one, KEYS["alice"]) as here,
        Client(other, KEYS["alice"]) as there,
    ):
        events: list[Any] = []
        resuming: list[tuple[int, asyncio.Task[httpx.Response]]] = []
        body = {"model": "m", "input": "Hi", "stream": True}
        async with asyncio.timeout(20), here.stream("POST", "/v1/responses", json=body) as response:
            async for line in response.aiter_lines():
                events += read_events(line)
                heartbeats = sum(event["type"] == "keepalive" for event in events)
                if heartbeats > 2 * len(resuming) and len(resuming) < len(gates):  # while the reply is silent
                    await asyncio.sleep(0.1)  # the other gateway learns of the heartbeat
                    after, path = len(events) - 1, f"/v1/responses/{events[0]['response']['id']}"
                    asking = there.get(f"{path}?stream=true&starting_after={after}")
                    resuming.append((after, asyncio.create_task(asking)))
                for gate in gates[: heartbeats // 2]:
                    gate.set()
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert sum(event["type"] == "keepalive" for event in events) >= 6
        output = events[-1]["response"]["output"]
        for after, asked in resuming:
            rest = read_events((await asked).text)
            assert without_heartbeats(rest)[:-1] == without_heartbeats(events[after + 1 :])[:-1], after
            assert (rest[-1]["type"], rest[-1]["response"]["output"]) == ("response.completed", output)
        for client in (here, there):
            for after in range(-1, len(events) - 1):
                query = "" if after < 0 else f"&starting_after={after}"
                again = await client.get(f"{path}?stream=true{query}")
                assert read_events(again.text) == events[after + 1 :], (client is there, after)
