"""A part of a configuration that is read key by key, so that it is known what was not read."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from app.importers.draft import Draft


class Source:
    """A table of the file. What is not taken of it is noted by `note_rest`."""

    def __init__(self, value: Any, path: str, draft: Draft) -> None:
        self.path = path
        self._draft = draft
        self._left: dict[str, Any] = {}
        if isinstance(value, Mapping):
            self._left = {str(key): item for key, item in value.items() if item is not None}
        elif value is not None:
            draft.note(path, "is not a table")

    def place(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path and key else self.path or key

    def note(self, key: str, text: str) -> None:
        self._draft.note(self.place(key), text)

    def take(self, key: str) -> Any:
        return self._left.pop(key, None)

    def fill(self, values: Mapping[str, Any]) -> None:
        """Add what is not there, before anything is taken."""
        self._left = {**values, **self._left}

    def skip(self, *keys: str) -> None:
        """Leave out what needs no counterpart."""
        for key in keys:
            self._left.pop(key, None)

    def take_text(self, key: str) -> str:
        """Return a text; numbers are written as texts. Empty: there is none."""
        value = self.take(key)
        if isinstance(value, bool) or not isinstance(value, str | int | float | None):
            self.note(key, "is not a text")
            return ""
        return "" if value is None else str(value).strip()

    def take_number(self, key: str) -> float | None:
        """Return a number above 0; a text may hold it."""
        value = self.take(key)
        number = _read_number(value)
        if number:
            return number
        if value is not None:
            self.note(key, "is not a number above 0")
        return None

    def take_count(self, key: str) -> float | None:
        """Return a number from 0; a text may hold it."""
        value = self.take(key)
        number = _read_number(value)
        if number is None and value is not None:
            self.note(key, "is not a number from 0")
        return number

    def take_table(self, key: str) -> "Source":
        return Source(self.take(key), self.place(key), self._draft)

    def take_list(self, key: str) -> list[Any]:
        value = self.take(key)
        if isinstance(value, list):
            return value
        if value is not None:
            self.note(key, "is not a list")
        return []

    def take_rows(self, key: str) -> "Iterator[Source]":
        """Yield the tables of a list."""
        path = self.place(key)
        for number, row in enumerate(self.take_list(key)):
            yield Source(row, f"{path}[{number}]", self._draft)

    def take_all(self) -> dict[str, Any]:
        """Return all that is left."""
        left, self._left = self._left, {}
        return left

    def names(self) -> list[str]:
        """Return the keys that were not read yet."""
        return list(self._left)

    def has(self, key: str) -> bool:
        return key in self._left

    def note_rest(self, reasons: Mapping[str, str]) -> None:
        """Note each key that was not read, with its reason if that is known."""
        for key in self.take_all():
            self.note(key, reasons.get(key, "has no counterpart that is known"))


def _read_number(value: Any) -> float | None:
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,15}(\.\d{1,9})?\s*", value):
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15:
        return float(value)
    return None


def to_whole(number: float) -> int:
    """Return the nearest whole number from 1."""
    return max(1, round(number))
