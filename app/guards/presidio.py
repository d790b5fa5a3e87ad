"""Presidio's analyzer (`POST /analyze`), which finds values in a text. Its `/anonymize` is not used: what that does
cannot be undone in the reply."""

import re
from collections.abc import Mapping
from typing import Any

from app.guards.verdicts import GuardError

_OWN_KINDS = {
    "EMAIL_ADDRESS": "EMAIL",
    "CREDIT_CARD": "CARD",
    "IBAN_CODE": "IBAN",
    "PHONE_NUMBER": "PHONE",
    "IP_ADDRESS": "IP",
}


def write_analysis(text: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"language": "en", **params, "text": text}


def read_spans(answer: Any, text: str) -> list[tuple[int, int, str]]:
    """Return (start, end, kind) of each value; offsets count code points. Raises GuardError."""
    if not isinstance(answer, list):
        raise GuardError("its answer is not a list")
    return list(dict.fromkeys(_read_span(item, len(text)) for item in answer))


def _read_span(item: Any, length: int) -> tuple[int, int, str]:
    if not isinstance(item, dict):
        raise GuardError("its answer has an item that is not an object")
    start, end, kind = item.get("start"), item.get("end"), item.get("entity_type")
    if type(start) is not int or type(end) is not int or not isinstance(kind, str) or not 0 <= start < end <= length:
        raise GuardError("its answer has a span that is not within the text")
    return start, end, _OWN_KINDS.get(kind, make_kind(kind))


def make_kind(name: str) -> str:
    """Return a kind as placeholders have it: 2 to 16 of `A-Z_`."""
    kind = re.sub(r"[^A-Z]+", "_", name.upper()).strip("_")[:16].strip("_")
    return kind if len(kind) >= 2 else "VALUE"
