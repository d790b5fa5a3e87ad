"""Keeps the reasoning of replies that call tools, for clients that do not send it back (`steps.dropped_reasoning`)."""

import logging
from collections.abc import Sequence

from typing_extensions import override

from app.cache import ReplaySource
from app.cache.stores import StateStore, StoreError
from app.cache.throttled_log import ThrottledLog
from app.chat.accumulator import MessageAccumulator
from app.chat.events import Event
from app.chat.messages import ChatRequest
from app.errors import StoreDown
from app.reply_consumer import ReplyConsumer
from app.routing import ModelRoute
from app.steps.dropped_reasoning import (
    DroppedReasoning,
    find_dropped_reasoning,
    make_key,
    restore_reasoning,
)

log = logging.getLogger("parley.reasoning")


class KeptReasoning:
    """What was kept for one caller is never found for another one."""

    def __init__(self, store: StateStore, ttl_seconds: float) -> None:
        self._store = store
        self._throttled_log = ThrottledLog(log)
        self._ttl_seconds = ttl_seconds

    def is_wanted(self, route: ModelRoute) -> bool:
        return True in [deployment.profile.restore_reasoning for deployment in route.deployments]

    def find_dropped(self, request: ChatRequest) -> list[DroppedReasoning]:
        return find_dropped_reasoning(request.messages)

    async def restore(
        self, request: ChatRequest, dropped: Sequence[DroppedReasoning], caller: str
    ) -> tuple[ChatRequest, list[str]]:
        """Return the request with the reasoning that is known, and warnings. Raises StoreDown: without the reasoning,
        the model's server may refuse the conversation for good."""
        found: dict[str, str] = {}
        for key in dict.fromkeys(key for turn in dropped for key in turn.keys):
            try:
                stored = await self._store.get(_make_store_key(caller, key))
            except StoreError as error:
                self._throttled_log.warn("the reasoning of earlier tool calls was not read", error)
                raise StoreDown(
                    "the reasoning of earlier tool calls, which this model needs, cannot be read, because the store "
                    "failed: try again later"
                ) from error
            if stored is not None:
                found[key] = stored.value.decode("utf-8", "surrogatepass")
        return restore_reasoning(request, dropped, found)

    async def keep(self, source: ReplaySource, context: str, caller: str, model: str) -> None:
        """Keep the reasoning of a reply that has ended. `context` is what it answered (`describe_context`)."""
        if not source.complete:
            return
        messages = (await _read(source)).messages
        text = "\n".join(one.text for one in messages if one.kind == "reasoning_content")
        calls = [one for one in messages if one.kind == "function_call"]
        if not text:
            return
        data = text.encode("utf-8", "surrogatepass")
        for call in calls:
            key = _make_store_key(caller, make_key(call.id, call.name, call.text, context))
            try:
                await self._store.put(key, data, ttl_seconds=self._ttl_seconds, model=model)
            except StoreError as error:
                self._throttled_log.warn("the reasoning before tool calls was not kept", error)


def _make_store_key(caller: str, key: str) -> str:
    return f"reasoning:{caller}:{key}"


async def _read(source: ReplaySource) -> MessageAccumulator:
    reader = _ReplyAccumulator()
    reply = await source.open()
    try:
        reply.start(reader)
        await reader.ended
    finally:
        reply.close()
    return reader.accumulator


class _ReplyAccumulator(ReplyConsumer):
    def __init__(self) -> None:
        super().__init__()
        self.accumulator = MessageAccumulator()

    @override
    def add_events(self, events: list[Event]) -> None:
        self.accumulator.feed(events)
