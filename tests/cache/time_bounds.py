"""Bounds of time that hold on a busy machine too."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

_GRACE_SECONDS = 0.05


@contextlib.asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """What happens inside takes no longer than a sleep beside it, and a little more: a busy machine delays both."""
    loop = asyncio.get_running_loop()
    sleeping = asyncio.create_task(asyncio.sleep(seconds))
    try:
        yield
        ended = loop.time()
        await sleeping
        assert ended < loop.time() + _GRACE_SECONDS
    finally:
        sleeping.cancel()
