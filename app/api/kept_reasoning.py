"""Keeps the reasoning and the signatures of replies that call tools, for clients that do not send them back
(`steps.dropped_reasoning`)."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from app.cache import ReplaySource
from app.calls.read_reply import read_reply
from app.chat.accumulator import MessageAccumulator, ReplyMessage
from app.chat.messages import ChatRequest
from app.errors import StoreDown
from app.openai_messages.messages import has_signature
from app.runtime.throttled_log import ThrottledLog
from app.steps.dropped_reasoning import (
    DroppedReasoning,
    KeptParts,
    Wanted,
    find_dropped_reasoning,
    find_restored,
    make_key,
    restore_reasoning,
)
from app.stores import StateStore, StoreError

log = logging.getLogger("parley.reasoning")


_AT_ONCE = 200
"""How many values are read together: a store answers them in one round trip."""


class KeptReasoning:
    """What was kept for one caller is never found for another one."""

    def __init__(self, store: StateStore, ttl_seconds: float) -> None:
        self._store = store
        self._throttled_log = ThrottledLog(log)
        self._ttl_seconds = ttl_seconds

    def find_dropped(self, request: ChatRequest, wanted: Wanted) -> Sequence[DroppedReasoning]:
        return find_dropped_reasoning(request.messages, wanted, request.known)

    async def restore(
        self, request: ChatRequest, dropped: Sequence[DroppedReasoning], wanted: Wanted, caller: str
    ) -> tuple[ChatRequest, list[str]]:
        """Return the request with what is known, and warnings. Raises StoreDown: without the reasoning, the model's
        server may refuse the conversation for good."""
        start = len(find_restored(request, wanted).messages)
        found = await self._find([turn for turn in dropped if turn.first >= start], caller)
        return restore_reasoning(request, dropped, found, wanted)

    async def _find(self, dropped: Sequence[DroppedReasoning], caller: str) -> dict[str, KeptParts]:
        """Return what was kept, by the keys of calls."""
        found: dict[str, KeptParts] = {}
        places = {key: turn for turn in dropped for key in turn.calls}
        wanted: list[str] = []
        for key, turn in places.items():
            wanted += [_make_store_key(caller, key)] if turn.lacks_reasoning else ()
            wanted += [_make_signature_key(caller, key)] if turn.lacks_signature else ()
            wanted += [_make_details_key(caller, key)] if turn.lacks_details else ()
        stored: dict[str, bytes] = {}
        for start in range(0, len(wanted), _AT_ONCE):
            keys = wanted[start : start + _AT_ONCE]
            values = await asyncio.gather(*map(self._get, keys))
            stored |= {name: value for name, value in zip(keys, values, strict=True) if value is not None}
        for key in places:
            reasoning = stored.get(_make_store_key(caller, key))
            signature = stored.get(_make_signature_key(caller, key))
            details = stored.get(_make_details_key(caller, key))
            if reasoning is not None or signature is not None or details is not None:
                text = (reasoning or b"").decode("utf-8", "surrogatepass")
                found[key] = KeptParts(
                    text,
                    msgspec.json.decode(signature) if signature else None,
                    msgspec.json.decode(details) if details else (),
                )
        return found

    async def _get(self, key: str) -> bytes | None:
        try:
            stored = await self._store.get(key)
        except StoreError as error:
            self._throttled_log.warn("the reasoning of earlier tool calls was not read", error)
            raise StoreDown(
                "the reasoning of earlier tool calls, which this model needs, cannot be read, because the store "
                "failed: try again later"
            ) from error
        return None if stored is None else stored.value

    async def keep(self, source: ReplaySource, context: str, caller: str, model: str) -> None:
        """Keep the reasoning and the signatures of a reply that has ended. `context` is what it answered
        (`describe_context`)."""
        if not source.complete:
            return
        accumulator = MessageAccumulator()
        for events in await read_reply(await source.open()):
            accumulator.feed(events)
        messages = accumulator.messages
        text = "\n".join(one.text for one in messages if one.kind == "reasoning_content")
        data = text.encode("utf-8", "surrogatepass")
        details = [item for one in messages for item in _list_details(one)]
        for call in messages:
            if call.kind != "function_call":
                continue
            key = make_key(call.id, call.name, call.text, context)
            if data:
                await self._put(_make_store_key(caller, key), data, model)
            if details:
                await self._put(_make_details_key(caller, key), msgspec.json.encode(details), model)
            if has_signature(call.extra):
                signature = msgspec.json.encode(call.extra["extra_content"])
                await self._put(_make_signature_key(caller, key), signature, model)

    async def _put(self, key: str, data: bytes, model: str) -> None:
        try:
            await self._store.put(key, data, ttl_seconds=self._ttl_seconds, model=model)
        except StoreError as error:
            self._throttled_log.warn("the reasoning before tool calls was not kept", error)


def _list_details(message: ReplyMessage) -> list[Any]:
    """Return the opaque items of a message, each signed text with the text that it signs."""
    details = message.extra.get("reasoning_details") or []
    return [
        {**item, "text": message.text} if item.get("signature") and item.get("text") is None else item
        for item in details
        if isinstance(item, dict)
    ]


def _make_details_key(caller: str, key: str) -> str:
    return f"details:{caller}:{key}"


def _make_store_key(caller: str, key: str) -> str:
    return f"reasoning:{caller}:{key}"


def _make_signature_key(caller: str, key: str) -> str:
    return f"signature:{caller}:{key}"
