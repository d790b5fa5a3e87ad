"""Conversations in the state database: items to which each response adds its input and its output.

A conversation is one value, beside the stored responses, and belongs to one caller. A response locks it as long as it
runs. The lock expires by itself, for the process that holds it may be killed; so what is added at the end is added only
if nothing else has changed the conversation.
"""

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.api.asgi import LARGE_BYTES, call_in_thread
from app.errors import ConversationLocked, NotFound, StoreDown
from app.formats.body import StoredConversation
from app.formats.responses.given_items import describe_unknown_conversation
from app.responses_api.record import InputMemory, RecordTooLarge
from app.state import Database, StateError, Statements, ValueRefused
from app.stores import NotKept, StateStore, StoreError
from app.stores.base import StoredValue

T = TypeVar("T")
_ID = re.compile(r"conv_[0-9a-f]{32}")
"""The ids that are made here. A database need not be asked for others, of which it could not hold each."""
LOCK_SECONDS = 30.0
"""How long a lock is valid without being renewed."""
_RENEW_SECONDS = 10.0
_STEP = 1e-4
"""Two changes of a conversation differ by at least this time, in seconds."""
_READ = 'SELECT value, stored_at FROM kept_values WHERE "key" = ? AND expires_at > ?'
_CHANGE = 'UPDATE kept_values SET value = ?, stored_at = ?, expires_at = ? WHERE "key" = ?'
_LOCK = (
    "INSERT INTO kept_values (\"key\", model, value, stored_at, expires_at) VALUES (?, '', ?, ?, ?) "
    'ON CONFLICT ("key") DO UPDATE SET value = excluded.value, stored_at = excluded.stored_at, '
    "expires_at = excluded.expires_at WHERE kept_values.expires_at <= ?"
)
_RENEW = 'UPDATE kept_values SET expires_at = ? WHERE "key" = ? AND value = ?'
_UNLOCK = 'DELETE FROM kept_values WHERE "key" = ? AND value = ?'
_USE = 'UPDATE kept_values SET expires_at = ? WHERE "key" = ?'
_DOWN = "the state database failed: try again later"


class Conversation(Struct, frozen=True):
    id: str
    created_at: int
    """Unix seconds."""
    metadata: dict[str, str]
    items: list[Any]

    def describe(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "conversation",
            "created_at": self.created_at,
            "metadata": self.metadata,
        }


class ConversationChanged(Exception):
    """The items of a response cannot be added to its conversation. The message says why."""


class Conversations:
    def __init__(
        self,
        store: StateStore,
        database: Database,
        *,
        ttl_seconds: float,
        max_bytes: int,
        max_items: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`store` keeps its values in `database`. `clock` returns Unix seconds."""
        self._store = store
        self._database = database
        self._ttl_seconds = ttl_seconds
        self._max_bytes = max_bytes
        self._max_items = max_items
        self._clock = clock

    async def create(self, caller: str, metadata: dict[str, str], items: list[Any]) -> Conversation:
        """Raises StoreDown, and RecordTooLarge."""
        made = Conversation(f"conv_{os.urandom(16).hex()}", int(self._clock()), metadata, items)
        data = self._encode(made)
        try:
            await self._store.put(_make_key(caller, made.id), data, ttl_seconds=self._ttl_seconds, model="")
        except NotKept as error:
            raise RecordTooLarge(str(error)) from error
        except StoreError as error:
            raise StoreDown(_DOWN) from error
        return made

    async def find(self, caller: str, id_: str, memory: InputMemory) -> StoredConversation | None:
        """Return a conversation for a request, whose memory counts it. Raises StoreDown, and Busy or TooLarge."""
        stored = await self._get(caller, id_)
        if stored is None:
            return None
        await memory.reserve(stored.value)
        return StoredConversation(id_, (await _read(stored.value)).items, stored.stored_at)

    async def get(self, caller: str, id_: str) -> Conversation:
        """Raises NotFound, and StoreDown."""
        stored = await self._get(caller, id_)
        if stored is None:
            raise make_not_found(id_)
        return await _read(stored.value)

    async def _get(self, caller: str, id_: str) -> StoredValue | None:
        try:
            return await self._store.get(_make_key(caller, id_)) if _ID.fullmatch(id_) else None
        except StoreError as error:
            raise StoreDown(_DOWN) from error

    async def change(self, caller: str, id_: str, change: Callable[[Conversation], Conversation]) -> Conversation:
        """Change a conversation, and return it. Raises NotFound, ConversationLocked, StoreDown, and RecordTooLarge."""
        key, now = _make_key(caller, id_), self._clock()
        if not _ID.fullmatch(id_):
            raise make_not_found(id_)

        def work(statements: Statements) -> Conversation:
            rows = statements.execute(f"{_READ}{statements.lock_rows}", (key, now))
            if not rows:
                raise make_not_found(id_)
            if statements.execute(_READ, (_make_lock(key), now)):
                raise _make_locked(id_)
            changed = change(_decode(bytes(rows[0][0])))
            self._write(statements, key, changed, float(rows[0][1]))
            return changed

        return await self._run(work)

    async def delete(self, caller: str, id_: str) -> None:
        """When this returns, no request finds it. Raises NotFound, and StoreDown."""
        await self.get(caller, id_)
        try:
            await self._store.delete(_make_key(caller, id_))
        except StoreError as error:
            raise StoreDown(_DOWN) from error

    def hold(self, caller: str, used: StoredConversation) -> "HeldConversation":
        return HeldConversation(self, _make_key(caller, used.id), used)

    async def _run(self, work: Callable[[Statements], T]) -> T:
        """Run `work` in a transaction, in a thread. Raises StoreDown."""

        def run() -> T:
            with self._database.transaction() as statements:
                return work(statements)

        try:
            return await asyncio.to_thread(run)
        except (StateError, ValueRefused) as error:
            raise StoreDown(_DOWN) from error

    def _write(self, statements: Statements, key: str, changed: Conversation, before: float) -> None:
        stored_at = max(self._clock(), before + _STEP)
        statements.execute(_CHANGE, (self._encode(changed), stored_at, stored_at + self._ttl_seconds, key))

    def _encode(self, conversation: Conversation) -> bytes:
        if len(conversation.items) > self._max_items:
            raise RecordTooLarge(f"more than {self._max_items} items (server.max_messages)")
        data = msgspec.json.encode(conversation)
        if len(data) > self._max_bytes:
            raise RecordTooLarge(f"{len(data)} bytes are too many to store (cache.max_entry_bytes)")
        return data

    async def lock(self, key: str, token: bytes, used: StoredConversation) -> None:
        """Raises NotFound, ConversationLocked, and StoreDown."""
        now = self._clock()

        def work(statements: Statements) -> None:
            statements.execute(_LOCK, (_make_lock(key), token, now, now + LOCK_SECONDS, now))
            ((holder, _),) = statements.execute(_READ, (_make_lock(key), now))
            if bytes(holder) != token:
                raise _make_locked(used.id)
            rows = statements.execute(f"{_READ}{statements.lock_rows}", (key, now))
            if not rows:
                raise make_not_found(used.id)
            if float(rows[0][1]) != used.stored_at:  # a response has ended since it was read
                raise _make_locked(used.id)
            statements.execute(_USE, (now + self._ttl_seconds, key))

        await self._run(work)

    async def renew(self, key: str, token: bytes) -> None:
        """Raises StoreDown."""
        until = self._clock() + LOCK_SECONDS
        await self._run(lambda statements: statements.execute(_RENEW, (until, _make_lock(key), token)))

    async def unlock(self, key: str, token: bytes) -> None:
        """Raises StoreDown."""
        await self._run(lambda statements: statements.execute(_UNLOCK, (_make_lock(key), token)))

    async def append(self, key: str, used: StoredConversation, items: Sequence[Any]) -> None:
        """Add items if nothing has changed since it was read. Raises ConversationChanged, RecordTooLarge, StoreDown."""
        now = self._clock()

        def work(statements: Statements) -> None:
            rows = statements.execute(f"{_READ}{statements.lock_rows}", (key, now))
            if not rows:
                raise ConversationChanged("it was deleted meanwhile")
            if float(rows[0][1]) != used.stored_at:
                raise ConversationChanged("it was changed meanwhile")
            found = _decode(bytes(rows[0][0]))
            self._write(statements, key, replace(found, items=[*found.items, *items]), used.stored_at)

        await self._run(work)


class HeldConversation:
    """A conversation that one response has locked: an asynchronous context manager."""

    def __init__(self, conversations: Conversations, key: str, used: StoredConversation) -> None:
        self._conversations = conversations
        self._key = key
        self._used = used
        self._token = os.urandom(16)
        self._renewing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "HeldConversation":
        """Raises NotFound, ConversationLocked, and StoreDown."""
        await self._conversations.lock(self._key, self._token, self._used)
        self._renewing = asyncio.get_running_loop().create_task(self._renew())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
        await _try(self._conversations.unlock(self._key, self._token))

    async def append(self, items: Sequence[Any]) -> str | None:
        """Add the items of the response. Return why they are not added; None if they are."""
        try:
            await self._conversations.append(self._key, self._used, items)
        except (ConversationChanged, RecordTooLarge) as error:
            return str(error)
        except StoreDown as error:
            return error.message
        return None

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            await _try(self._conversations.renew(self._key, self._token))


async def _try(work: Awaitable[None]) -> None:
    """A lock that cannot be renewed or removed expires."""
    with contextlib.suppress(StoreDown):
        await work


def make_not_found(id_: str) -> NotFound:
    return NotFound(describe_unknown_conversation(id_))


def _make_locked(id_: str) -> ConversationLocked:
    return ConversationLocked(
        f"another response is running in the conversation {id_!r}: send the request again after it"
    )


def _make_key(caller: str, id_: str) -> str:
    return f"conversation:{caller}:{id_}"


def _make_lock(key: str) -> str:
    return f"lock of {key}"


async def _read(data: bytes) -> Conversation:
    return _decode(data) if len(data) <= LARGE_BYTES else await call_in_thread(_decode, data)


def _decode(data: bytes) -> Conversation:
    return msgspec.json.decode(data, type=Conversation)
