"""The fixture: a server that can be paused, killed and started again at the same place."""

import pytest
from redis.backoff import NoBackoff
from redis.retry import Retry

import redis
from tests.redis_server import RedisServer, running_redis

ONCE = Retry(NoBackoff(), 0)


def test_a_server_answers_by_its_port_and_its_socket(shared_redis: RedisServer) -> None:
    with redis.Redis(port=shared_redis.port) as by_port, shared_redis.client() as by_socket:
        by_port.set("a", "b")
        assert by_socket.get("a") == b"b"


def test_the_shared_server_is_empty_for_every_test(shared_redis: RedisServer) -> None:
    with shared_redis.client() as client:
        assert client.dbsize() == 0


def test_a_paused_server_takes_connections_and_answers_nothing(own_redis: RedisServer) -> None:
    own_redis.pause()
    with redis.Redis(port=own_redis.port, socket_timeout=0.05, retry=ONCE) as client:
        with pytest.raises(redis.TimeoutError):
            client.ping()
        own_redis.go_on()
        assert client.ping()


def test_a_killed_server_comes_back_at_its_port_and_has_forgotten(own_redis: RedisServer) -> None:
    with redis.Redis(port=own_redis.port, retry=ONCE) as client:
        client.set("a", "b")
        own_redis.kill()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        own_redis.start()
        assert client.get("a") is None


def test_servers_take_options() -> None:
    with running_redis("--maxmemory", "7mb") as server, server.client() as client:
        assert client.config_get("maxmemory") == {"maxmemory": str(7 * 1024 * 1024)}
