"""Join the fragments of `reasoning_details` in a stream to the items that the model server wants back.

OpenRouter streams one item of the list in many fragments with the same `index`: the text in pieces and, for Claude, the
signature alone at the end (OpenRouterTeam/ai-sdk-provider#423, pydantic/pydantic-ai#7214). The next request must have
the items whole, unchanged and in their order: a signature is refused without the text that it signs.
"""

from typing import Any

_TEXT_KEYS = ("text", "summary")
_PLAIN_KEYS = frozenset(("type", "text", "format", "index", "id"))


def get_details_text(details: list[Any]) -> str:
    """Return the text of `reasoning_details`, for servers that send it in no other field."""
    texts = (item.get("text") or item.get("summary") for item in details if isinstance(item, dict))
    return "".join(text for text in texts if isinstance(text, str))


_LEAST_REPEATED = 3
"""A shorter text may begin the next fragment by chance."""


class _KnownText:
    """The text of an item so far, in pieces."""

    __slots__ = ("pieces", "size")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.size = 0

    def take_new(self, text: str) -> str:
        """Return what is new in the text of the next fragment, which may have all of the text so far."""
        is_longer = len(text) > self.size >= _LEAST_REPEATED
        if is_longer and text.startswith(known := "".join(self.pieces)):
            self.pieces, self.size = [text], len(text)
            return text[len(known) :]
        self.pieces.append(text)
        self.size += len(text)
        return text


class RepeatedTexts:
    """Finds the fragments of one item that have all of its text so far (ZHangZHengEric/Sage#256)."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int], _KnownText] = {}
        """Of the items with an id and an index."""

    def cut(self, details: list[Any]) -> list[Any]:
        """Return the fragments with what is new in each."""
        return [self._cut_one(item) if isinstance(item, dict) else item for item in details]

    def _cut_one(self, item: dict[str, Any]) -> dict[str, Any]:
        id_, index = item.get("id"), item.get("index")
        name = next((key for key in _TEXT_KEYS if isinstance(item.get(key), str)), None)
        if name is None or not isinstance(id_, str) or not id_ or type(index) is not int:
            return item
        return {**item, name: self._known.setdefault((name, id_, index), _KnownText()).take_new(item[name])}


class _Item:
    """An item whose fragments may still come."""

    __slots__ = ("_fields", "_texts")

    def __init__(self, fragment: dict[str, Any]) -> None:
        self._fields = dict(fragment)
        self._texts: dict[str, list[str]] = {}
        """The pieces of each text."""
        self._add_texts(fragment)

    def continues_with(self, fragment: dict[str, Any]) -> bool:
        """Whether a fragment of the same type and index belongs to this item. Its id says if it does not."""
        known, given = self._fields.get("id"), fragment.get("id")
        return known is None or given is None or known == given

    def add(self, fragment: dict[str, Any]) -> None:
        self._add_texts(fragment)
        for key, value in fragment.items():
            if value is not None and self._fields.get(key) is None:
                self._fields[key] = value

    def _add_texts(self, fragment: dict[str, Any]) -> None:
        for key in _TEXT_KEYS:
            text = fragment.get(key)
            if isinstance(text, str):
                self._texts.setdefault(key, []).append(text)

    @property
    def is_signed(self) -> bool:
        return bool(self._fields.get("signature"))

    def join(self) -> dict[str, Any]:
        return self._fields | {key: "".join(texts) for key, texts in self._texts.items()}


class ReasoningDetails:
    """The `reasoning_details` of one reply. An unsigned text is held until something follows that must be sent back.

    Unsigned texts alone are not returned: they are the reasoning that the client has anyway.
    """

    def __init__(self) -> None:
        self._held: list[_Item | dict[str, Any]] = []
        self._open: dict[tuple[str, int | None], _Item] = {}
        """The held items that a fragment may continue, by type and index."""
        self._returned = False

    def add(self, details: list[Any]) -> list[dict[str, Any]]:
        """Add the fragments of a delta. Returns the items that are complete with it."""
        complete: list[dict[str, Any]] = []
        for fragment in details:
            if isinstance(fragment, dict) and self._add_fragment(fragment):
                complete += self._release()
        return complete

    def add_whole(self, details: list[Any]) -> list[dict[str, Any]]:
        """Add the items of a whole message. Returns those to send back."""
        self._held += [dict(item) for item in details if isinstance(item, dict)]
        return self.close()

    def _add_fragment(self, fragment: dict[str, Any]) -> bool:
        """Add a fragment. Returns whether an item is complete with it that must be sent back."""
        type_, index = fragment.get("type"), fragment.get("index")
        if fragment.get("data") is not None:
            self._held.append(dict(fragment))
            return True
        key = (type_ if isinstance(type_, str) else "", index if isinstance(index, int) else None)
        item = self._open.get(key)
        if item is None or not item.continues_with(fragment) or (index is None and self._held[-1] is not item):
            item = self._open[key] = _Item(fragment)
            self._held.append(item)
        else:
            item.add(fragment)
        return item.is_signed

    def close(self) -> list[dict[str, Any]]:
        """End the reply. Returns the rest of the items, if any of the reply's items must be sent back."""
        items = self._release()
        if not self._returned and all(map(_is_plain_text, items)):
            return []
        self._returned = True
        return items

    def _release(self) -> list[dict[str, Any]]:
        items = [item.join() if isinstance(item, _Item) else item for item in self._held]
        self._held, self._open = [], {}
        return items


def _is_plain_text(item: dict[str, Any]) -> bool:
    known = (key in _PLAIN_KEYS or value is None for key, value in item.items())
    return item.get("type") in (None, "reasoning.text") and all(known)
