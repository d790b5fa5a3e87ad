"""What is needed of a request at the end of its reply."""

from typing import Any

from app.responses_api.body import ResponsesRequest
from app.responses_api.stored import ResponseRecord, add_item_ids


class KeptRequest:
    def __init__(self, parsed: ResponsesRequest, caller: str | None) -> None:
        """`caller` is None if the response is not stored."""
        self.caller = caller
        self._all_items: list[Any] = parsed.input_items
        self._context_length = parsed.context_length

    def make_record(
        self, response: dict[str, Any], *, alive_until: float | None = None, last_number: int | None = None
    ) -> ResponseRecord:
        """`alive_until` is for a response that has not ended, `last_number` for one that has."""
        items = add_item_ids(self._all_items, response["id"], self._context_length)
        return ResponseRecord(response, [*items, *response["output"]], len(items), alive_until, last_number)
