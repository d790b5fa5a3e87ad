"""Fixtures that tests of several rooms need."""

from tests.redis_server import one_redis, own_redis, shared_redis

__all__ = ["one_redis", "own_redis", "shared_redis"]
