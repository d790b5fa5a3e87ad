"""Endpoints for conversations: create, read, change and delete one; add, list, read and delete its items."""

import os
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.api.asgi import (
    LARGE_BYTES,
    Receive,
    Scope,
    call_in_thread,
    read_body,
    send_json,
    wait_for_parse_memory,
)
from app.api.context import AppContext
from app.api.response_writer import Send
from app.api.router import AsgiRoute
from app.errors import InvalidInput, NotFound, Violation
from app.formats.conversation import MAX_METADATA, MetadataKey, MetadataValue
from app.formats.json_object import parse_object
from app.formats.old_media import parse_lists
from app.formats.request_limits import find_invalid_values
from app.formats.responses import RESPONSES
from app.formats.responses.given_items import find_references
from app.formats.responses.parse import parse_items
from app.params import max_entries
from app.responses_api.conversations import Conversation, Conversations
from app.responses_api.pages import parse_query, select_page
from app.responses_api.record import add_item_ids, complete_item
from app.responses_api.stored_endpoints import Handler, MethodEndpoint
from app.validation.violations import to_violations

MAX_ADDED = 20
"""How many items one request adds (platform.openai.com/docs/api-reference/conversations)."""
_NO_STATE = "conversations are kept in the state database, and this gateway has none: set state.url"
_Schema = TypeVar("_Schema", bound=BaseModel)
Metadata = Annotated[dict[MetadataKey, MetadataValue] | None, max_entries(MAX_METADATA)]


class _NewConversation(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    items: list[Any] | None = Field(default=None, max_length=MAX_ADDED)
    metadata: Metadata = None


class _ChangedConversation(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    metadata: Metadata


class _NewItems(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    items: list[Any] = Field(min_length=1, max_length=MAX_ADDED)


def list_conversation_routes(context: AppContext, conversations: Conversations | None) -> list[AsgiRoute]:
    """Return the routes; without a state database each of them answers with 404."""
    handlers = _Handlers(context, conversations)
    one, items = "/v1/conversations/{conversation_id}", "/v1/conversations/{conversation_id}/items"
    paths: dict[str, dict[str, Handler]] = {
        "/v1/conversations": {"POST": handlers.create},
        one: {"GET": handlers.get, "POST": handlers.change, "DELETE": handlers.delete},
        items: {"GET": handlers.list_items, "POST": handlers.add_items},
        f"{items}/{{item_id}}": {"GET": handlers.get_item, "DELETE": handlers.delete_item},
    }
    return [AsgiRoute(path, MethodEndpoint(context, methods), *methods) for path, methods in paths.items()]


class _Handlers:
    def __init__(self, context: AppContext, conversations: Conversations | None) -> None:
        self._context = context
        self._conversations = conversations

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        conversations = self._require()
        given = await self._read(scope, receive, _NewConversation)
        items = _check_items(given.items or [])
        made = await conversations.create(self._context.caller_id(scope), given.metadata or {}, items)
        await send_json(send, 200, made.describe())

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = await self._require().get(self._context.caller_id(scope), _id(scope))
        await send_json(send, 200, found.describe())

    async def change(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = await self._read(scope, receive, _ChangedConversation)
        changed = await self._change(scope, lambda found: replace(found, metadata=given.metadata or {}))
        await send_json(send, 200, changed.describe())

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._require().delete(self._context.caller_id(scope), _id(scope))
        await send_json(send, 200, {"id": _id(scope), "object": "conversation.deleted", "deleted": True})

    async def list_items(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = await self._require().get(self._context.caller_id(scope), _id(scope))
        await send_json(send, 200, select_page(list(map(complete_item, found.items)), parse_query(scope)))

    async def add_items(self, scope: Scope, receive: Receive, send: Send) -> None:
        items = _check_items((await self._read(scope, receive, _NewItems)).items)
        await self._change(scope, lambda found: replace(found, items=[*found.items, *items]))
        await send_json(send, 200, select_page(list(map(complete_item, items)), {"order": "asc"}))

    async def get_item(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = await self._require().get(self._context.caller_id(scope), _id(scope))
        item = found.items[_find_item(found, scope["path_params"]["item_id"])]
        await send_json(send, 200, complete_item(item))

    async def delete_item(self, scope: Scope, receive: Receive, send: Send) -> None:
        def without_item(found: Conversation) -> Conversation:
            place = _find_item(found, scope["path_params"]["item_id"])
            return replace(found, items=found.items[:place] + found.items[place + 1 :])

        await send_json(send, 200, (await self._change(scope, without_item)).describe())

    async def _change(self, scope: Scope, change: Callable[[Conversation], Conversation]) -> Conversation:
        return await self._require().change(self._context.caller_id(scope), _id(scope), change)

    def _require(self) -> Conversations:
        if self._conversations is None:
            raise NotFound(_NO_STATE)
        return self._conversations

    async def _read(self, scope: Scope, receive: Receive, schema: type[_Schema]) -> _Schema:
        """Read the body. Raises ParleyError."""
        self._require()
        server = self._context.server
        with self._context.budget.lease() as lease:
            raw = await read_body(scope, receive, server.max_body_bytes, server.body_seconds, lease)
            await wait_for_parse_memory(raw, lease, server.max_json_values)
            parse = partial(_parse, raw, schema, self._context.live.request_limits.max_nesting)
            return await call_in_thread(parse) if len(raw) > LARGE_BYTES else parse()


def _parse(raw: bytes | bytearray, schema: type[_Schema], max_nesting: int) -> _Schema:
    """Raises BadRequest, and InvalidInput."""
    body = parse_object(raw) if raw.strip() else {}
    violations = list(find_invalid_values(body, "", max_nesting))
    if violations:
        raise InvalidInput(violations)
    try:
        return schema.model_validate(body)
    except ValidationError as error:
        raise InvalidInput(to_violations(error, body, schema=schema)) from None


def _check_items(items: list[Any]) -> list[Any]:
    """Return the items with ids. Raises InvalidInput."""
    if find_references(items):
        raise InvalidInput([Violation("items", "must be the items themselves: references are not looked up here")])
    if not items:
        return []
    parsed = parse_lists(
        lambda lists: parse_items(lists, settings_are_read=True), {"items": items}, RESPONSES.write_text
    )
    if parsed.violations:
        raise InvalidInput(list(parsed.violations))
    return add_item_ids(items, f"item_{os.urandom(16).hex()}", 0)


def _find_item(conversation: Conversation, id_: str) -> int:
    for place, item in enumerate(conversation.items):
        if item.get("id") == id_:
            return place
    raise NotFound(f"the conversation {conversation.id!r} has no item {id_!r}")


def _id(scope: Scope) -> str:
    id_: str = scope["path_params"]["conversation_id"]
    return id_
