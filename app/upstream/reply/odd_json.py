"""Read JSON of model servers that the strict decoders refuse, into values that can be written again as JSON.

Servers send halves of surrogate pairs, invalid UTF-8, `NaN` and `Infinity` (Python's `json.dumps` writes them), and
numbers beyond 64 bits.
"""

import json
import math
from typing import Any

_MAX_INTEGER = 2**64 - 1
"""The largest integer that can be written again as an integer outside of text."""
_EMPTY_TEXTS = ("", "[DONE]")
_MAX_DIGITS = 4000
"""An integer with more digits is read as 0: Python refuses it, and it takes quadratic time."""


def load(data: bytes) -> Any:
    """Parse JSON. What is no number in JSON becomes None; texts may still have halves of surrogate pairs.

    Raises ValueError if `data` is not one whole JSON value.
    """
    text = data.decode("utf-8", "replace")
    return json.loads(text, parse_int=_read_integer, parse_float=_read_float, parse_constant=lambda _: None)


def _read_integer(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_DIGITS else 0


def _read_float(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def join_surrogates(text: str) -> str:
    """Join escaped surrogate pairs to characters; half a pair becomes U+FFFD, because UTF-8 cannot encode it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def clean(value: Any) -> Any:
    """Replace in any JSON value what cannot be encoded: half surrogate pairs (UTF-8), and integers beyond 64 bits, of
    which the digits are kept as a text."""
    if isinstance(value, str):
        return value if value.isascii() else join_surrogates(value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return str(value) if isinstance(value, int) and not -(2**63) <= value <= _MAX_INTEGER else value


def read_as_object(value: Any) -> dict[str, Any] | None:
    """Return a value that is not a list as an object: a text is an object with that `message`. None if it says nothing:
    null, a number, an empty text (caozhiyuan/copilot-api#88)."""
    if isinstance(value, str) and value.strip() not in _EMPTY_TEXTS:
        return {"message": join_surrogates(value)}
    return value if isinstance(value, dict) else None


def read_text(value: Any) -> str | None:
    """Return a text that may be in an object (`{"text": …}`) or in pieces in a list; None if there is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        inner = value.get("text")
        return inner if isinstance(inner, str) else None
    if isinstance(value, list):
        texts = [read_text(item) for item in value if not isinstance(item, list)]
        return "".join([text for text in texts if text is not None]) if texts else None
    return None
