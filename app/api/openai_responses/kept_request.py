"""What is needed of a request at the end of its reply."""

from typing import Any

from msgspec.structs import replace

from app.api.openai_responses.body import ResponsesRequest
from app.api.openai_responses.stored import ResponseRecord, add_item_ids
from app.chat.events import Finish
from app.chat.messages import ChatRequest, Tool
from app.errors import InvalidInput
from app.formats.base import Options
from app.formats.responses import RESPONSES
from app.formats.responses.stream import ResponseEventEncoder
from app.gateway import Gateway
from app.routing import ModelRoute

ESTIMATED = "the model server sent no usage: the numbers of tokens are an estimate (usage_estimated)"


class KeptRequest:
    def __init__(self, parsed: ResponsesRequest, gateway: Gateway, route: ModelRoute, caller: str | None) -> None:
        """`caller` is None if the response is not stored."""
        self.caller = caller
        self._gateway = gateway
        self._route = route
        self._tools: tuple[Tool, ...] = parsed.request.tools
        self._all_items: list[Any] = parsed.input_items
        self._context_length = parsed.context_length

    def make_record(self, response: dict[str, Any], alive_until: float | None = None) -> ResponseRecord:
        """`alive_until` is for a response that has not ended."""
        items = add_item_ids(self._all_items, response["id"], self._context_length)
        return ResponseRecord(response, [*items, *response["output"]], len(items), alive_until)

    def complete_finish(self, finish: Finish, encoder: ResponseEventEncoder) -> Finish:
        """Add an estimate of the usage if the server sent none, and the conversation can be counted."""
        if finish.usage is not None:
            return finish
        messages = RESPONSES.parse(self._all_items, Options()).messages if self._all_items else ()
        request = ChatRequest(self._route.model, messages, self._tools)
        try:
            given = self._gateway.count_tokens(self._route, request)
        except InvalidInput:  # a call without result, which is no error where calls are sent as text
            return finish
        used = self._gateway.count_text_tokens(self._route, encoder.texts)
        usage = {"prompt_tokens": given, "completion_tokens": used, "total_tokens": given + used}
        return replace(finish, usage=usage, warnings=(*finish.warnings, ESTIMATED))
