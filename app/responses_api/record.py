"""Responses that are kept, so that later requests can continue and read them.

A record holds everything that the model saw and said, the items of earlier responses included: one look-up reads it,
and deleting one response does not break a later one. Records belong to one caller: for any other they do not exist.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.api.asgi import LARGE_BYTES, call_in_thread, wait_for_parse_memory
from app.config.tables.server import Server
from app.errors import StoreDown, TooLarge
from app.formats.body import StoredItems
from app.formats.responses.body import ResponsesRequest
from app.formats.responses.response import find_response_id
from app.runtime.memory_budget import UNCOUNTED_BYTES, Lease
from app.runtime.throttled_log import ThrottledLog
from app.stores import NotKept, StateStore, StoreError

log = logging.getLogger("parley.responses")

RENEWALS = 24
"""A record that is read is stored again once this part of its time has passed: its time counts from the last use. One
that is running is not: it would replace the end if that is stored meanwhile."""
CONTINUABLE = ("completed", "incomplete")
RUNNING = ("queued", "in_progress")
_STORED_INPUT = "the stored conversation that the request continues"


class ResponseRecord(Struct, frozen=True):
    response: dict[str, Any]
    items: list[Any]
    """The input, then the output."""
    input_length: int
    alive_until: float | None = None
    """Unix seconds until which a background response that has not ended is certainly running."""
    last_number: int | None = None
    """The sequence number of the last event of its stream; None if it had none, or has not ended."""

    @property
    def status(self) -> str:
        status: str = self.response["status"]
        return status


class KeptRequest:
    """What is needed of a request at the end of its reply."""

    def __init__(self, parsed: ResponsesRequest, caller: str) -> None:
        self.caller = caller
        self._all_items: list[Any] = parsed.input_items
        self.context_length = parsed.context_length
        """How many items of the input are from earlier responses, or from a conversation."""

    def make_record(
        self, response: dict[str, Any], *, alive_until: float | None = None, last_number: int | None = None
    ) -> ResponseRecord:
        """`alive_until` is for a response that has not ended, `last_number` for one that has."""
        items = add_item_ids(self._all_items, response["id"], self.context_length)
        return ResponseRecord(response, [*items, *response["output"]], len(items), alive_until, last_number)


class RecordTooLarge(Exception):
    """A response has too many bytes to be stored. The message says how many."""


class InputMemory:
    """The memory of the records that one request refers to. They count, for the limits too, as if it had their JSON in
    its body."""

    def __init__(self, lease: Lease, server: Server) -> None:
        self._lease = lease
        self._max_bytes = server.max_body_bytes
        self._values_left = server.max_json_values
        self.read_bytes = 0
        """The size of all records so far."""

    async def reserve(self, record: bytes) -> None:
        """Take the memory of a record, and wait for the memory that parsing it needs. Raises Busy or TooLarge."""
        self.read_bytes += len(record)
        if self.read_bytes > self._max_bytes:
            raise TooLarge(f"{_STORED_INPUT} has more than {self._max_bytes} bytes")
        if len(record) > UNCOUNTED_BYTES:
            self._lease.take(len(record))
        self._values_left -= await wait_for_parse_memory(record, self._lease, self._values_left, name=_STORED_INPUT)


class StoredResponses:
    def __init__(
        self,
        store: StateStore,
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
        self._throttled_log = ThrottledLog(log)

    async def put(self, caller: str, record: ResponseRecord) -> None:
        """Store a record. When this returns, every request finds it. Raises RecordTooLarge, and StoreDown if it may not
        be stored."""
        data = self._encode(record)
        try:
            await self._store.put(_key(caller, record), data, ttl_seconds=self._ttl_seconds, model=_model(record))
        except NotKept as error:
            raise RecordTooLarge(str(error)) from error
        except StoreError as error:
            self._throttled_log.warn("a response was not stored", error)
            raise StoreDown("the response cannot be stored, because the store failed: try again later") from error

    def _encode(self, record: ResponseRecord) -> bytes:
        data = msgspec.json.encode(record)
        if len(data) > self.max_bytes:
            raise RecordTooLarge(f"{len(data)} bytes are too many to store (cache.max_entry_bytes)")
        return data

    async def get(self, caller: str, response_id: str) -> ResponseRecord | None:
        """Return a record; None if there is none. Its time in the store starts again. Raises StoreDown."""
        return await self._get(_make_key(caller, response_id), None)

    async def _get(self, key: str, memory: InputMemory | None) -> ResponseRecord | None:
        """Return a record, after its memory was reserved."""
        try:
            stored = await self._store.get(key)
        except StoreError as error:
            self._throttled_log.warn("a stored response was not read", error)
            raise StoreDown("stored responses cannot be read, because the store failed: try again later") from error
        if stored is None:
            return None
        data = stored.value
        if memory is not None:
            await memory.reserve(data)
        try:
            record = _decode(data) if len(data) <= LARGE_BYTES else await call_in_thread(_decode, data)
        except msgspec.MsgspecError:
            return None
        if record.status not in RUNNING and self._clock() - stored.stored_at > self._ttl_seconds / RENEWALS:
            await self._renew(key, data, _model(record))
        return self._check_running(record)

    async def _renew(self, key: str, data: bytes, model: str) -> None:
        try:
            await self._store.put(key, data, ttl_seconds=self._ttl_seconds, model=model)
        except StoreError as error:  # it stays stored until its present time is over
            self._throttled_log.warn("the time of a stored response was not renewed", error)

    async def delete(self, caller: str, response_id: str) -> None:
        """Delete a record. When this returns, no request finds it. Raises StoreDown if it may still be there."""
        try:
            await self._store.delete(_make_key(caller, response_id))
        except StoreError as error:
            self._throttled_log.warn("a stored response was not deleted", error)
            raise StoreDown("the response cannot be deleted, because the store failed: try again later") from error

    async def find(
        self, caller: str, response_id: str | None, item_ids: Sequence[str], memory: InputMemory
    ) -> StoredItems:
        """Look up the references of a request, each record once. Raises Busy, TooLarge or StoreDown.

        A record has the items of the responses before it, so the last item is looked up first: nearly always its record
        has the others too.
        """
        responses: dict[str, list[Any]] = {}
        items: dict[str, Any] = {}
        if response_id is not None:
            record = await self._get(_make_key(caller, response_id), memory)
            if record is not None and record.status in CONTINUABLE:
                responses[response_id] = record.items
        missing, read = set(item_ids), set[str]()
        for item_id in reversed(item_ids):
            owner = find_response_id(item_id)
            if owner is None or owner in read or item_id not in missing:
                continue
            read.add(owner)
            record = await self._get(_make_key(caller, owner), memory)
            if record is not None:
                found = {
                    item["id"]: item for item in record.items if isinstance(item, dict) and item.get("id") in missing
                }
                items |= found
                missing -= found.keys()
        return StoredItems(responses, items, memory.read_bytes)

    def _check_running(self, record: ResponseRecord) -> ResponseRecord:
        """Report a background response as failed if the gateway that ran it has stopped."""
        if record.status not in RUNNING or record.alive_until is None or record.alive_until > self._clock():
            return record
        error = {
            "code": "server_error",
            "message": "the gateway that ran this response stopped: send the request again",
        }
        return replace(record, response=record.response | {"status": "failed", "error": error})


def _decode(data: bytes) -> ResponseRecord:
    return msgspec.json.decode(data, type=ResponseRecord)


def _key(caller: str, record: ResponseRecord) -> str:
    return _make_key(caller, record.response["id"])


def _make_key(caller: str, response_id: str) -> str:
    """Ids have no colon. The names of callers have: what a client sends as an id must not be the end of a name."""
    return f"response:{caller}:{response_id.replace(':', '%3A')}"


def _model(record: ResponseRecord) -> str:
    return str(record.response["model"])


def add_item_ids(items: list[Any], response_id: str, start: int) -> list[Any]:
    """Return the input with an id on each item, from the position `start` on. Without that id, each is sent as it came
    (`app.upstream.responses.items.strip_input_id`)."""
    suffix = response_id.rpartition("_")[2]
    return [
        item if number < start or item.get("id") else {**item, "id": _make_item_id(item, f"{suffix}_i{number}")}
        for number, item in enumerate(items)
    ]


_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "cto",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
    "additional_tools": "at",
}


def _make_item_id(item: Any, suffix: str) -> str:
    return f"{_PREFIXES.get(item.get('type') or 'message', 'item')}_{suffix}"


def complete_item(item: Any) -> Any:
    """Return an item with an id as OpenAI's API shows it: messages in their full form."""
    complete = {"type": item.get("type") or "message", "id": item["id"], **item}
    if complete["type"] != "message":
        return complete
    complete.setdefault("status", "completed")
    if isinstance(item.get("content"), str):
        said = item.get("role") == "assistant"
        part = {"type": "output_text", "annotations": []} if said else {"type": "input_text"}
        complete["content"] = [{**part, "text": item["content"]}]
    return complete
