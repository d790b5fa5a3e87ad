"""Typed access to a JSON body: what is missing or of the wrong type is refused under its path."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MOST_DIGITS = 60
_SMALLEST, _LARGEST = 1e-60, 1e60


class Refused(Exception):
    """The request is malformed; `param` names the field."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


@dataclass(frozen=True, slots=True)
class Fields:
    """Typed access to one JSON object; a value of the wrong type is refused under its path."""

    values: Mapping[str, Any]
    path: str = ""

    def _where(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def get(self, key: str, wanted: type | tuple[type, ...], default: Any) -> Any:
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is int):
            raise Refused(f"'{self._where(key)}' has the wrong type.", self._where(key))
        return value

    def need(self, key: str, wanted: type) -> Any:
        value = self.get(key, wanted, None)
        if value is None or value == "":
            raise Refused(f"'{self._where(key)}' is required.", self._where(key))
        return value

    def inner(self, key: str) -> "Fields":
        return Fields(self.get(key, dict, {}), self._where(key))

    def each(self, key: str) -> "list[Fields]":
        found = []
        for place, value in enumerate(self.get(key, list, [])):
            where = f"{self._where(key)}[{place}]"
            if not isinstance(value, dict):
                raise Refused(f"'{where}' must be an object.", where)
            found.append(Fields(value, where))
        return found

    def refuse(self, key: str, why: str) -> Refused:
        return Refused(f"'{self._where(key)}' {why}", self._where(key))


def parse(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body, parse_constant=_number, parse_float=_number, parse_int=_number)
    except (ValueError, RecursionError) as exc:
        raise Refused("The body is not JSON, or holds a number that is out of range.") from exc
    if not isinstance(value, dict):
        raise Refused("The body must be a JSON object.")
    return value


def _number(text: str) -> int | float:
    """Python's JSON would also take NaN and numbers that no other JSON reader takes."""
    if len(text) > _MOST_DIGITS:
        raise ValueError("too many digits")
    value = int(text) if text.removeprefix("-").isdigit() else float(text)
    if not (value == 0 or _SMALLEST <= abs(value) <= _LARGEST):
        raise ValueError("out of range")
    return value
