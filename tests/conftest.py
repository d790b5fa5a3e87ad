"""Fixtures that tests of several rooms need."""

import os
from collections.abc import Iterator

import pytest

from tests.in_process_gateway import restored_logging
from tests.redis_server import one_redis, own_redis, shared_redis

__all__ = ["one_redis", "own_redis", "shared_redis"]


@pytest.fixture(scope="session", autouse=True)
def no_cache_of_the_user() -> Iterator[None]:
    """What was told to the user, or in another test, no gateway finds that a test starts: its cache can be no file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "XDG_CACHE_HOME", os.devnull)
        yield


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """An application that a test makes sets the level of all logs, which must not outlive the test."""
    with restored_logging():
        yield
