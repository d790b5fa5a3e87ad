"""Live tests run on uvloop, as the gateway does."""

from typing import Any

import pytest

from tests.redis_server import store_url


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(params=[False, True], ids=["at once", "later"])
def later(request: pytest.FixtureRequest) -> bool:
    """Whether the reply is to be had from the store alone when it is asked for again."""
    return bool(request.param)


@pytest.fixture(params=["null:", "redis"])
def url(request: pytest.FixtureRequest) -> str:
    """Of a cache that stores nothing, and of one that other gateways share."""
    return store_url(request)
