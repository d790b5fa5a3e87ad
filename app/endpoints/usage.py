"""What an answer used, read from the values that servers put at its top."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from app.chat.token_usage import read_count
from app.upstream.reply.usage import normalize_usage

USAGE_FIELDS = frozenset((b"usage", b"meta", b"duration", b"prompt_eval_count", b"usageMetadata"))
"""`meta` is Cohere's, `duration` that of a transcript, `prompt_eval_count` Ollama's, `usageMetadata` Google's."""
_MAX_SECONDS = 10**7


def read_answer_usage(
    values: Mapping[bytes, bytes], images: int | None = None, counted_tokens: str = ""
) -> dict[str, Any] | None:
    """Return the usage with OpenAI's names for tokens, and `searches` and `seconds`; None if the server told none.

    `images` is the number of images in the answer, which may be all that is known, and `counted_tokens` what the
    header `x-compute-tokens` says.
    """
    usage, meta = _read_object(values, b"usage"), _read_object(values, b"meta")
    evaluated = (
        _read(values, b"prompt_eval_count"),
        _read_object(values, b"usageMetadata").get("promptTokenCount"),
    )
    usage = _complete(normalize_usage(usage) or usage, meta, evaluated, counted_tokens)
    billed = _pick_object(meta, "billed_units")
    more = {
        "searches": read_count(billed.get("search_units")),
        "seconds": _find_seconds(usage.get("seconds"), _read(values, b"duration")),
    }
    more = {name: value for name, value in more.items() if value is not None}
    if images is not None:
        more["images"] = images
    known = read_count(usage.get("prompt_tokens")) is not None
    if not more and not known:
        return None
    return {**({} if more.keys() == {"images"} else count_tokens(0)), **usage, **more}


def count_tokens(prompt: int, reply: int = 0) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply}


def _complete(
    usage: dict[str, Any], meta: Mapping[str, Any], evaluated: Sequence[Any], counted_tokens: str
) -> dict[str, Any]:
    """Return the usage with the tokens that a server tells elsewhere: of the prompt alone, in a total, in `meta`, or in
    a header."""
    if read_count(usage.get("prompt_tokens")) is not None and read_count(usage.get("completion_tokens")) is not None:
        return usage
    places = (_pick_object(meta, "billed_units"), _pick_object(meta, "tokens"))
    header = int(counted_tokens) if counted_tokens.isascii() and counted_tokens[:12].isdigit() else None
    prompt = _find_count(
        usage.get("prompt_tokens"),
        usage.get("total_tokens"),
        *(place.get("input_tokens") for place in places),
        *evaluated,
        header,
    )
    reply = _find_count(usage.get("completion_tokens"), *(place.get("output_tokens") for place in places)) or 0
    return usage if prompt is None else {**usage, **count_tokens(prompt, reply)}


def _read(values: Mapping[bytes, bytes], name: bytes) -> Any:
    try:
        return msgspec.json.decode(values[name]) if name in values else None
    except (ValueError, RecursionError):
        return None


def _read_object(values: Mapping[bytes, bytes], name: bytes) -> dict[str, Any]:
    value = _read(values, name)
    return value if isinstance(value, dict) else {}


def _pick_object(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


def _find_count(*values: Any) -> int | None:
    """Return the first of these that is a number of tokens."""
    return next((count for count in map(read_count, values) if count is not None), None)


def _find_seconds(*values: Any) -> float | None:
    for value in values:
        if type(value) in (int, float) and 0 <= value <= _MAX_SECONDS:
            return float(value)
    return None
