"""The way to Redis: bounded, refused at once while it is away, found again when it is back."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from app.redis.connection import MAX_BYTES, Client, RedisConnection, RedisRejected, RedisUnanswered, RedisUnavailable

from redis import exceptions
from tests.cache.time_bounds import within
from tests.redis_server import RedisServer, clustered, free_port, running_redis, running_sentinel

TLS = Path(__file__).parent / "tls"


async def read(client: Client) -> Any:
    return await client.get("key")


def run_with_breaker(link: RedisConnection, scenario: Callable[[RedisConnection], Awaitable[None]]) -> None:
    """Runs the story, and leaves nothing open."""

    async def run() -> None:
        try:
            await scenario(link)
        finally:
            await link.aclose()

    asyncio.run(run())


async def back(link: RedisConnection) -> None:
    async with asyncio.timeout(10):
        while link.is_open:
            await asyncio.sleep(0.005)


def test_a_call_returns_what_its_operation_does(shared_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        await link.call(lambda client: client.set("key", b"\xff"))
        assert await link.call(read) == b"\xff"

    run_with_breaker(RedisConnection(shared_redis.url), scenario)


def test_a_paused_server_delays_one_call_by_a_tenth_of_a_second_and_no_other(own_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        await link.call(read)
        own_redis.pause()
        for longest in (0.1, 0, 0):
            async with within(longest):
                with pytest.raises(RedisUnavailable):
                    await link.call(read)
        assert link.is_open
        own_redis.go_on()
        await back(link)
        assert await link.call(read) is None

    run_with_breaker(RedisConnection(own_redis.url, rest_seconds=0.02), scenario)


def test_calls_at_the_same_time_are_all_let_go_when_the_server_is_paused(own_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        own_redis.pause()
        async with within(0.1):
            results = await asyncio.gather(*(link.call(read) for _ in range(200)), return_exceptions=True)
        assert {type(result) for result in results} == {RedisUnanswered, RedisUnavailable}

    run_with_breaker(RedisConnection(own_redis.url), scenario)


def test_a_killed_server_is_found_again(own_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        await link.call(read)
        own_redis.kill()
        for _ in range(3):
            with pytest.raises(RedisUnavailable):
                await link.call(read)
        own_redis.start()
        await back(link)
        assert await link.call(read) is None

    run_with_breaker(RedisConnection(own_redis.url, rest_seconds=0.02), scenario)


def test_a_server_that_came_back_between_two_calls_was_never_away(own_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        await link.call(read)
        own_redis.kill()
        own_redis.start()
        assert await link.call(read) is None

    run_with_breaker(RedisConnection(own_redis.url), scenario)


def test_a_refusal_says_why_and_is_no_outage(shared_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        await link.call(lambda client: client.set("key", "text"))
        for _ in range(5):
            with pytest.raises(RedisRejected, match="WRONGTYPE"):
                await link.call(lambda client: client.execute_command("LPUSH", "key", "x"))
        assert not link.is_open

    run_with_breaker(RedisConnection(shared_redis.url), scenario)


def test_a_cluster_that_is_named_as_a_single_server_is_recognized(shared_redis: RedisServer) -> None:
    async def move(_: object) -> None:
        raise exceptions.MovedError("15158 127.0.0.1:7603")

    async def scenario(link: RedisConnection) -> None:
        with pytest.raises(RedisRejected, match=r"it is a cluster, whose URL begins with redis\+cluster:"):
            await link.call(move)

    run_with_breaker(RedisConnection(shared_redis.url), scenario)


def test_commands_at_the_same_time_share_a_round_trip_and_a_refused_one_fails_alone(shared_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        await link.execute("SET", "key", "text")
        names = [f"key {number}" for number in range(100)]
        await asyncio.gather(*(link.execute("SET", name, name, "PX", 60_000) for name in names))
        *values, refused = await asyncio.gather(
            *(link.execute("GET", name) for name in names), link.execute("LPUSH", "key", "x"), return_exceptions=True
        )
        assert values == [name.encode() for name in names]
        assert isinstance(refused, RedisRejected)
        assert not link.is_open

    run_with_breaker(RedisConnection(shared_redis.url), scenario)


def test_a_large_command_is_sent_by_itself(shared_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        value = b"x" * (MAX_BYTES + 1)
        assert await link.execute("SET", "key", value)
        assert await link.execute("GET", "key") == value

    run_with_breaker(RedisConnection(shared_redis.url), scenario)


def test_commands_at_the_same_time_are_all_let_go_when_the_server_is_paused(own_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        own_redis.pause()
        async with within(0.1):
            results = await asyncio.gather(*(link.execute("GET", "key") for _ in range(200)), return_exceptions=True)
        assert {type(result) for result in results} == {RedisUnanswered, RedisUnavailable}
        assert link.is_open

    run_with_breaker(RedisConnection(own_redis.url), scenario)


def test_a_defect_of_the_operation_is_raised_unchanged(shared_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        async def broken(_: Client) -> None:
            raise KeyError("defect")

        with pytest.raises(KeyError):
            await link.call(broken)

    run_with_breaker(RedisConnection(shared_redis.url), scenario)


def test_a_connection_whose_command_was_cancelled_is_not_used_for_the_next_answer(own_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        await link.call(lambda client: client.mset({"a": "1", "b": "2"}))
        own_redis.pause()
        with pytest.raises(RedisUnavailable):
            await link.call(lambda client: client.get("a"))
        own_redis.go_on()
        await back(link)
        assert await link.call(lambda client: client.get("b")) == b"2"

    run_with_breaker(RedisConnection(own_redis.url, max_connections=1, rest_seconds=0.02), scenario)


def test_a_process_that_was_busy_finds_its_answer_all_the_same(shared_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        async def busy(client: Client) -> Any:
            await client.set("key", "text")
            time.sleep(0.2)  # noqa: ASYNC251 - it is busy
            return await client.get("key")

        assert await link.call(busy) == b"text"
        assert not link.is_open

    run_with_breaker(RedisConnection(shared_redis.url), scenario)


def test_a_server_that_is_down_while_the_process_is_busy_gets_one_command_only(own_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        async def busy(client: Client) -> None:
            await client.set("key", "text")
            own_redis.pause()
            time.sleep(0.2)  # noqa: ASYNC251 - it is busy
            await client.get("key")

        with pytest.raises(RedisUnavailable):
            await link.call(busy)
        assert link.is_open

    run_with_breaker(RedisConnection(own_redis.url), scenario)


def test_a_patient_call_takes_no_turn_from_the_others(shared_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        waiting = [
            asyncio.create_task(link.call(lambda client: client.blpop(["never"], 30), timeout=60)) for _ in range(20)
        ]
        await asyncio.sleep(0)
        assert await link.call(read) is None
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    run_with_breaker(RedisConnection(shared_redis.url), scenario)


def test_a_closed_link_is_away_and_may_be_closed_again(shared_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        await link.call(read)
        await link.aclose()
        await link.aclose()
        with pytest.raises(RedisUnavailable):
            await link.call(read)

    run_with_breaker(RedisConnection(shared_redis.url), scenario)


def test_closing_does_not_wait_for_a_server_that_is_away(own_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        await link.call(read)
        own_redis.pause()
        with pytest.raises(RedisUnavailable):
            await link.call(read)
        async with within(0.1):
            await link.aclose()

    run_with_breaker(RedisConnection(own_redis.url), scenario)


def test_a_server_is_reached_by_its_socket_and_with_a_password(shared_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        assert await link.call(read) is None

    run_with_breaker(RedisConnection(f"redis+unix://{shared_redis.socket}?db=1"), scenario)
    with running_redis("--requirepass", "s3cret") as server:
        run_with_breaker(RedisConnection(server.url.replace("//", "//:s3cret@")), scenario)

        async def refused(link: RedisConnection) -> None:
            with pytest.raises(RedisUnavailable):
                await link.call(read)

        run_with_breaker(RedisConnection(server.url.replace("//", "//:wrong@")), refused)


def test_a_cluster_is_reached_by_one_of_its_nodes() -> None:
    async def scenario(link: RedisConnection) -> None:
        for key in ("a", "b", "c"):
            await link.call(lambda client, key=key: client.set(key, key), timeout=5)  # type: ignore[misc]
        assert await link.call(lambda client: client.get("b")) == b"b"
        server.kill()
        with pytest.raises(RedisUnavailable):
            await link.call(read)

    with running_redis("--cluster-enabled", "yes") as server:
        clustered(server)
        run_with_breaker(RedisConnection(server.url.replace("redis:", "redis+cluster:").removesuffix("/0")), scenario)


def test_commands_go_to_the_master_that_sentinels_name(own_redis: RedisServer) -> None:
    async def scenario(link: RedisConnection) -> None:
        await link.call(lambda client: client.set("key", "of the master"), timeout=5)
        assert await link.call(read) == b"of the master"

    with running_sentinel(own_redis) as port:
        run_with_breaker(RedisConnection(f"redis+sentinel://127.0.0.1:{port}/main/0"), scenario)


def test_a_server_is_reached_with_tls_by_its_own_certificate_alone() -> None:
    port = free_port()
    with running_redis("--tls-port", str(port), "--tls-auth-clients", "no", *_certificate()):

        async def scenario(link: RedisConnection) -> None:
            assert await link.call(read, timeout=5) is None

        async def refused(link: RedisConnection) -> None:
            with pytest.raises(RedisUnavailable, match="certificate"):
                await link.call(read, timeout=5)

        run_with_breaker(RedisConnection(f"rediss://127.0.0.1:{port}?ssl_ca_certs={TLS}/certificate.pem"), scenario)
        run_with_breaker(
            RedisConnection(f"rediss://127.0.0.1:{port}?ssl_cert_reqs=none&ssl_check_hostname=false"), scenario
        )
        run_with_breaker(RedisConnection(f"rediss://127.0.0.1:{port}"), refused)


def _certificate() -> list[str]:
    return ["--tls-cert-file", f"{TLS}/certificate.pem", "--tls-key-file", f"{TLS}/key.pem"] + [
        "--tls-ca-cert-file",
        f"{TLS}/certificate.pem",
    ]


@pytest.mark.parametrize("url", ["sqlite:///a.db", "memory:", "redis"])
def test_what_is_no_redis_is_no_link(url: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        RedisConnection(url)


class MovedName:
    """A name that leads to one server, then to another: a relay that the connections go through."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self.connections = 0
        self.port = 0

    async def __aenter__(self) -> "MovedName":
        self._listener = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there = await asyncio.open_unix_connection(str(self.server.socket))
        await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()


async def find_value(link: RedisConnection, value: bytes) -> None:
    async with asyncio.timeout(10):
        while await link.call(read) != value:
            await asyncio.sleep(0.005)


def test_a_name_that_moves_is_followed_while_the_old_server_still_answers(
    shared_redis: RedisServer, own_redis: RedisServer
) -> None:
    async def run() -> None:
        with shared_redis.client() as old, own_redis.client() as new:
            old.set("key", "old")
            new.set("key", "new")
        async with MovedName(shared_redis) as name:
            link = RedisConnection(f"redis://127.0.0.1:{name.port}/0", max_age_seconds=0.02)
            # A call in progress goes on at the old server while others are at the new one.
            waiting = asyncio.create_task(link.call(lambda client: client.blpop(["list"], 5), timeout=5))
            await find_value(link, b"old")
            name.server = own_redis
            await find_value(link, b"new")
            with shared_redis.client() as old:
                old.rpush("list", "item")
            assert await waiting == (b"list", b"item")
            await link.aclose()

    asyncio.run(run())


def test_a_young_connection_stays(shared_redis: RedisServer) -> None:
    async def run() -> None:
        async with MovedName(shared_redis) as name:
            link = RedisConnection(f"redis://127.0.0.1:{name.port}/0")
            for _ in range(20):
                await link.call(read)
            assert name.connections == 1
            await link.aclose()

    asyncio.run(run())


def test_a_server_that_became_a_replica_is_left_at_once(shared_redis: RedisServer, own_redis: RedisServer) -> None:
    async def run() -> None:
        async with MovedName(own_redis) as name:
            link = RedisConnection(f"redis://127.0.0.1:{name.port}/0", rest_seconds=0.02)
            await link.execute("SET", "key", "old")
            with own_redis.client() as client:
                client.replicaof("127.0.0.1", str(free_port()))
            name.server = shared_redis
            async with asyncio.timeout(10):
                while True:
                    try:
                        await link.execute("SET", "key", "new")
                        break
                    except RedisRejected as error:
                        assert "read only" in str(error)
                        await asyncio.sleep(0.01)
            await find_value(link, b"new")
            await link.aclose()

    asyncio.run(run())


def test_the_client_stays_if_a_new_one_reaches_nothing(own_redis: RedisServer) -> None:
    async def run() -> None:
        async with MovedName(own_redis) as name:
            link = RedisConnection(f"redis://127.0.0.1:{name.port}/0", max_age_seconds=0.02, rest_seconds=0.02)
            await link.call(read)
            await name.__aexit__()
            for _ in range(20):
                await link.call(read)
                await asyncio.sleep(0.005)
            assert not link.is_open
            await link.aclose()

    asyncio.run(run())
