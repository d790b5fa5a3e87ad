"""The endpoint of `POST /v1/responses`: a `ChatEndpoint` whose requests may refer to stored responses, and whose own
responses are stored."""

import os
import time
from collections.abc import Coroutine
from typing import Any

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from app.api.asgi import Scope
from app.api.chat import ChatEndpoint
from app.api.chat_schema import ParsedRequest, RejectedRequest, UnresolvedRequest, limit_warnings
from app.api.context import AppContext, PendingReply
from app.api.openai_responses.body import ResponsesRequest, parse_responses_body
from app.api.openai_responses.kept_reply import KeptReply
from app.api.openai_responses.stored import ResponseRecord, StoredResponses, add_item_ids
from app.api.response_writer import ResponseWriter
from app.api.responses import ReplyResponse
from app.cache import Apply
from app.chat.events import Finish
from app.chat.messages import ChatRequest, Tool
from app.chat.stream import AttemptLog, Reply
from app.formats.base import Options
from app.formats.responses import RESPONSES
from app.formats.responses.stream import ResponseEventEncoder
from app.gateway import Gateway
from app.memory_budget import Lease
from app.observe.request_record import RequestRecord
from app.routing import ModelRoute

ESTIMATED = "the model server sent no usage: the numbers of tokens are an estimate (usage_estimated)"


def new_response_id() -> str:
    return f"resp_{os.urandom(16).hex()}"


class ResponsesEndpoint(ChatEndpoint):
    def __init__(self, context: AppContext, stored: StoredResponses, apply: Apply) -> None:
        super().__init__(
            context,
            parse_responses_body,
            "responses",
            RESPONSES.error,
            apply,
            new_reply_id=new_response_id,
            keeps_alias=True,
        )
        self._stored = stored

    @override
    async def _resolve(self, request: UnresolvedRequest, scope: Scope) -> ParsedRequest | RejectedRequest:
        found = await self._stored.find(self._context.caller_id(scope), request.response_id, request.item_ids)
        return request.resolve(found)

    @override
    def _prepare(
        self,
        gateway: Gateway,
        parsed: ParsedRequest,
        route: ModelRoute,
        large: bool,
        lease: Lease,
        scope: Scope,
        writer: ResponseWriter,
        request_id: str,
        record: RequestRecord,
        attempts: AttemptLog,
    ) -> tuple[ReplyResponse, PendingReply]:
        assert isinstance(parsed, ResponsesRequest)
        parsed = self._decide_storing(parsed)
        response, opening = super()._prepare(
            gateway, parsed, route, large, lease, scope, writer, request_id, record, attempts
        )
        kept = _KeptRequest(parsed, route, self._context.caller_id(scope) if parsed.store else None)
        return response, self._keep(opening, response, kept)

    @override
    def _get_owner(self, scope: Scope) -> str:
        return self._context.caller_id(scope)

    def _decide_storing(self, parsed: ResponsesRequest) -> ResponsesRequest:
        """Return the request with `store` false, and a warning, if its response cannot be stored."""
        if not parsed.store:
            return parsed
        if not self._stored.enabled:
            warning = "store: this gateway stores no responses (cache.url, responses.store), so store is false"
        elif (size := len(msgspec.json.encode(parsed.input_items))) > self._stored.max_bytes // 2:
            warning = f"store: {size} bytes of input are too many to store (cache.max_entry_bytes), so store is false"
        else:
            return parsed
        options = parsed.options.responses
        unstored = replace(options, fields=options.fields | {"store": False}, sealed=True)
        return replace(
            parsed,
            store=False,
            options=replace(parsed.options, responses=unstored),
            warnings=limit_warnings([*parsed.warnings, warning]),
        )

    async def _keep(self, opening: PendingReply, response: ReplyResponse, kept: "_KeptRequest") -> Reply:
        reply = await opening
        return KeptReply(
            reply,
            response,
            lambda made: self._save(made, kept),
            lambda finish, encoder: self._complete_finish(finish, encoder, kept),
            lambda: int(time.time()),
        )

    def _save(self, response: dict[str, Any], kept: "_KeptRequest") -> Coroutine[Any, Any, None] | None:
        if kept.caller is None:
            return None
        record = kept.make_record(response)
        return None if self._stored.put_nowait(kept.caller, record) else self._stored.put(kept.caller, record)

    def _complete_finish(self, finish: Finish, encoder: ResponseEventEncoder, kept: "_KeptRequest") -> Finish:
        """Add an estimate of the usage if the server sent none."""
        if finish.usage is not None:
            return finish
        messages = RESPONSES.parse(kept.all_items, Options()).messages if kept.all_items else ()
        request = ChatRequest(kept.route.model, messages, kept.tools)
        gateway = self._context.gateway
        given, used = gateway.count_tokens(kept.route, request), gateway.count_text_tokens(kept.route, encoder.texts)
        usage = {"prompt_tokens": given, "completion_tokens": used, "total_tokens": given + used}
        return replace(finish, usage=usage, warnings=(*finish.warnings, ESTIMATED))


class _KeptRequest:
    """What is needed of a request at the end of its reply."""

    def __init__(self, parsed: ResponsesRequest, route: ModelRoute, caller: str | None) -> None:
        """`caller` is None if the response is not stored."""
        self.route = route
        self.caller = caller
        self.tools: tuple[Tool, ...] = parsed.request.tools
        self.all_items: list[Any] = parsed.input_items
        self._context_length = parsed.context_length

    def make_record(self, response: dict[str, Any]) -> ResponseRecord:
        items = add_item_ids(self.all_items, response["id"], self._context_length)
        return ResponseRecord(response, [*items, *response["output"]], len(items))
