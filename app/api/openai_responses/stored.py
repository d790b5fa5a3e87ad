"""Responses that are kept, so that later requests can continue and read them.

A record holds everything that the model saw and said, the items of earlier responses included: one look-up reads it,
and deleting one response does not break a later one. Records belong to one caller: for any other they do not exist.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.api.chat_schema import StoredItems
from app.cache.stores import UNKNOWN, Store
from app.formats.responses.stream import find_response_id

RENEWALS = 24
"""A record that is read is stored again once this part of its time has passed: its time counts from the last use. One
that is running is not: it would replace the end if that is stored meanwhile."""
CONTINUABLE = ("completed", "incomplete")
RUNNING = ("queued", "in_progress")


class ResponseRecord(Struct, frozen=True):
    response: dict[str, Any]
    items: list[Any]
    """The input, then the output."""
    input_length: int
    alive_until: float | None = None
    """Unix seconds until which a background response that has not ended is certainly running."""

    @property
    def status(self) -> str:
        status: str = self.response["status"]
        return status


class RecordTooLarge(Exception):
    """A response has too many bytes to be stored. The message says how many."""


class StoredResponses:
    def __init__(
        self,
        store: Store,
        *,
        enabled: bool,
        ttl_seconds: float,
        max_bytes: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` returns Unix seconds. Records of more than `max_bytes` cannot be stored."""
        self._store = store
        self.enabled = enabled
        self.max_bytes = max_bytes
        self._ttl_seconds = ttl_seconds
        self._clock = clock

    def put_nowait(self, caller: str, record: ResponseRecord) -> bool:
        """Store a record that this process finds from now on. False if the store cannot do that: then use `put`. Raises
        RecordTooLarge."""
        data = self._encode(record)
        return self._store.put_nowait(_key(caller, record), data, ttl_seconds=self._ttl_seconds, model=_model(record))

    async def put(self, caller: str, record: ResponseRecord) -> None:
        """Raises RecordTooLarge."""
        data = self._encode(record)
        await self._store.put(_key(caller, record), data, ttl_seconds=self._ttl_seconds, model=_model(record))

    def _encode(self, record: ResponseRecord) -> bytes:
        data = msgspec.json.encode(record)
        if len(data) > self.max_bytes:
            raise RecordTooLarge(f"{len(data)} bytes are too many to store (cache.max_entry_bytes)")
        return data

    async def get(self, caller: str, response_id: str) -> ResponseRecord | None:
        """Return a record. Its time in the store starts again."""
        key = _make_key(caller, response_id)
        known = self._store.get_nowait(key)
        stored = await self._store.get(key) if known is UNKNOWN else known
        if stored is None:
            return None
        try:
            record = msgspec.json.decode(stored.value, type=ResponseRecord)
        except msgspec.MsgspecError:
            return None
        if record.status not in RUNNING and self._clock() - stored.stored_at > self._ttl_seconds / RENEWALS:
            await self._renew(caller, record)
        return self._check_running(record)

    async def _renew(self, caller: str, record: ResponseRecord) -> None:
        if not self.put_nowait(caller, record):
            await self.put(caller, record)

    async def delete(self, caller: str, response_id: str) -> None:
        await self._store.delete(_make_key(caller, response_id))

    async def find(self, caller: str, response_id: str | None, item_ids: Iterable[str]) -> StoredItems:
        """Look up the references of a request."""
        responses: dict[str, list[Any]] = {}
        items: dict[str, Any] = {}
        if response_id is not None:
            record = await self.get(caller, response_id)
            if record is not None and record.status in CONTINUABLE:
                responses[response_id] = record.items
        owners: dict[str, set[str]] = {}
        for item_id in item_ids:
            owner = find_response_id(item_id)
            if owner is not None:
                owners.setdefault(owner, set()).add(item_id)
        for owner, wanted in owners.items():
            record = await self.get(caller, owner)
            for item in () if record is None else record.items:
                if isinstance(item, dict) and item.get("id") in wanted:
                    items[item["id"]] = item
        return StoredItems(responses, items)

    def _check_running(self, record: ResponseRecord) -> ResponseRecord:
        """Report a background response as failed if the gateway that ran it has stopped."""
        if record.status not in RUNNING or record.alive_until is None or record.alive_until > self._clock():
            return record
        error = {
            "code": "server_error",
            "message": "the gateway that ran this response stopped: send the request again",
        }
        return replace(record, response=record.response | {"status": "failed", "error": error})


def _key(caller: str, record: ResponseRecord) -> str:
    return _make_key(caller, record.response["id"])


def _make_key(caller: str, response_id: str) -> str:
    return f"response:{caller}:{response_id}"


def _model(record: ResponseRecord) -> str:
    return str(record.response["model"])


def add_item_ids(items: list[Any], response_id: str, start: int) -> list[Any]:
    """Return the input with an id on each item, from the position `start` on, and messages in their full form."""
    suffix = response_id.rpartition("_")[2]
    return [
        item if number < start else _complete_item(item, f"{suffix}_i{number}") for number, item in enumerate(items)
    ]


_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "cto",
}


def _complete_item(item: Any, suffix: str) -> Any:
    kind = item.get("type") or "message"
    complete = {"type": kind, "id": item.get("id") or f"{_PREFIXES.get(kind, 'item')}_{suffix}", **item}
    complete["id"] = complete["id"] or f"{_PREFIXES.get(kind, 'item')}_{suffix}"
    if kind == "message":
        complete.setdefault("status", "completed")
        if isinstance(item.get("content"), str):
            said = item.get("role") == "assistant"
            part = {"type": "output_text", "annotations": []} if said else {"type": "input_text"}
            complete["content"] = [{**part, "text": item["content"]}]
    return complete
