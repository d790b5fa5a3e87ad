"""The items of a conversation of the Responses API: those of a body, and stored ones that it refers to."""

from typing import Any

from app.errors import NotFound, PreviousResponseNotFound, Violation
from app.formats.body import StoredItems
from app.formats.responses.schema import COMPACTIONS, describe_unknown_item
from app.formats.responses.special_items import find_special, is_empty_reasoning, is_reference
from app.formats.seal import read_seal
from app.validation.violations import describe_given

Json = dict[str, Any]


def find_conversation(body: Json) -> str | None:
    """Return the id of the conversation that a request names, as a text or in an object."""
    given = body.get("conversation")
    id_ = given.get("id") if isinstance(given, dict) else given
    return id_ if isinstance(id_, str) else None


def find_references(items: Any) -> list[str]:
    """Return the ids of the items that must be read from the store."""
    return [items[place]["id"] for place in find_special(items, "stored")] if isinstance(items, list) else []


def describe_unknown_conversation(id_: str) -> str:
    return f"there is no conversation {id_!r}: it expired, was deleted, or belongs to another caller"


class ItemReader:
    """Reads the items of one body."""

    def __init__(self, body: Json, stored: StoredItems) -> None:
        self.conversation = find_conversation(body)
        """The id of the conversation that the body names."""
        self._body = body
        self._stored = stored
        self.violations: list[Violation] = []
        """What is wrong with the items that were read."""

    def _refuse(self, path: str, message: str) -> None:
        self.violations.append(Violation(path, message))

    def read_context(self) -> list[Any]:
        """Return the stored items that come before those of the body. Raises NotFound and PreviousResponseNotFound."""
        if self._body.get("conversation") is not None:
            return self._read_conversation()
        id_ = self._body.get("previous_response_id")
        if not isinstance(id_, str):
            return []
        items = self._stored.responses.get(id_)
        if items is None:
            raise PreviousResponseNotFound(
                f"there is no response {id_!r} that can be continued: it expired, was deleted, failed, was not stored,"
                " or belongs to another caller; send the whole conversation",
                "previous_response_id",
            )
        return _drop_summarized(items)

    def _read_conversation(self) -> list[Any]:
        """Return the items of the conversation, of which no model server knows."""
        found = self._stored.conversation
        if self.conversation is None:
            self._refuse("conversation", "must be the id of a conversation, or an object with its `id`")
        elif self._body.get("previous_response_id") is not None:
            self._refuse("conversation", "stands for the whole context: leave previous_response_id out")
        elif found is None:
            if self._stored.keeps_conversations:
                raise NotFound(describe_unknown_conversation(self.conversation), "conversation")
            hint = "send the items, or previous_response_id; this gateway has no state database (state.url)"
            self._refuse("conversation", f"is not supported: {hint}")
        elif self._body.get("background") is True:
            self._refuse("background", "is not possible with a conversation")
        else:
            return _drop_summarized(found.items)
        return []

    def read_items(self) -> list[Any]:
        """Return the items of the body. Raises NotFound for one that is stored."""
        given = self._body.get("input")
        if isinstance(given, str):
            return [{"type": "message", "role": "user", "content": given}] if given else []
        if given is None:
            goes_on = self._body.get("previous_response_id") is not None or self.conversation is not None
            if not self._body.get("instructions") and not goes_on:
                self._refuse("input", f"is required{self._suggest_input()}")
            return []
        if not isinstance(given, list):
            self._refuse("input", f"must be a string or a list of items{describe_given(given)}")
            return []
        if not find_references(given):
            return list(given)
        return [self._resolve_item(item, number) for number, item in enumerate(given)]

    def _suggest_input(self) -> str:
        other = next((key for key in ("messages", "prompt", "conversation") if self._body.get(key)), None)
        hint = f": here the conversation is `input`, not `{other}`" if other else ": a text or a list of items"
        return f"{hint} (POST /v1/chat/completions takes `messages`)" if other == "messages" else hint

    def _resolve_item(self, item: Any, number: int) -> Any:
        if not isinstance(item, dict) or not isinstance(item.get("id"), str):
            return item
        if is_reference(item):
            if item["id"] not in self._stored.items:
                raise NotFound(describe_unknown_item(item["id"]), f"input[{number}].id")
            return self._stored.items[item["id"]]
        return self._stored.items.get(item["id"], item) if is_empty_reasoning(item) else item


def _drop_summarized(items: list[Any]) -> list[Any]:
    """Return the items of an earlier response without those that its last summary replaces. Instructions, tools and
    settings stay."""
    last = max((number for number, item in enumerate(items) if _is_summary(item)), default=0)
    return [item for item in items[:last] if _outlives_summary(item)] + items[last:]


def _is_summary(item: Any) -> bool:
    if not isinstance(item, dict) or item.get("type") not in COMPACTIONS:
        return False
    seal = item.get("encrypted_content")
    return isinstance(seal, str) and read_seal(seal) is not None


def _outlives_summary(item: Any) -> bool:
    return isinstance(item, dict) and (
        item.get("type") in ("additional_tools", "configuration_update") or item.get("role") in ("system", "developer")
    )
