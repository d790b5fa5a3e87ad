"""Reads the log probabilities of a reply's tokens, for requests that ask for them: readers of other replies skip them.

What a server sends is made into the objects of OpenAI's API: every field is there, and every number is finite.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from app.chat.events import Event, Fault
from app.chat.token_record import Token, TokenRecord
from app.upstream.reply.odd_json import clean, load
from app.upstream.reply.reader import ReplyAssembler

LEAST_LOGPROB = -9999.0
"""OpenAI's number for a token that is very unlikely: JSON has no -Infinity, which llama.cpp and vLLM compute."""


class ScoredItem(Struct):
    """An item of a reply, and the tokens that came with it."""

    item: Any
    tokens: list[Token]


def score_items(decode: Callable[[bytes], Any], find_tokens: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    """Return a decoder that gives the items of `decode`, with their tokens where they have any. `find_tokens` returns
    those of a JSON value."""

    def decode_scored(data: bytes) -> Any:
        item = decode(data)
        if b"logprobs" not in data:
            return item
        tokens = read_tokens(find_tokens(_load(data)))
        return ScoredItem(item, tokens) if tokens else item

    return decode_scored


def _load(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return load(data)


class ScoredAssembler:
    """Gives the items of a reply to an assembler, and records the text that each one brought with its tokens."""

    def __init__(self, assembler: ReplyAssembler, record: TokenRecord) -> None:
        self._assembler = assembler
        self._record = record

    @property
    def started(self) -> bool:
        return self._assembler.started

    @property
    def ended(self) -> bool:
        return self._assembler.ended

    @property
    def finishing(self) -> bool:
        return self._assembler.finishing

    def check_progress(self) -> bool:
        return self._assembler.check_progress()

    def read_usage(self) -> dict[str, Any] | None:
        return self._assembler.read_usage()

    def feed(self, items: Sequence[Any]) -> list[Event]:
        out: list[Event] = []
        for item in items:
            if type(item) is ScoredItem:
                out += self._add(self._assembler.feed([item.item]), item.tokens)
            else:
                out += self._add(self._assembler.feed([item]))
        return out

    def close(self, junk: bytes = b"", fault: Fault | None = None) -> list[Event]:
        return self._add(self._assembler.close(junk, fault))

    def _add(self, events: list[Event], tokens: list[Token] | None = None) -> list[Event]:
        self._record.add(events, tokens)
        return events


def read_tokens(given: Any) -> list[Token]:
    """Return the tokens of a list of OpenAI's objects, or of the parallel lists of text completions (Together). None of
    them, if one cannot be read."""
    entries = _pair_lists(given) if isinstance(given, dict) else given
    if not isinstance(entries, list):
        return []
    tokens = [_read_token(entry) for entry in entries]
    return [] if None in tokens else [token for token in tokens if token is not None]


def _pair_lists(given: dict[str, Any]) -> Any:
    tokens, numbers, alternatives = given.get("tokens"), given.get("token_logprobs"), given.get("top_logprobs")
    if not isinstance(tokens, list) or not isinstance(numbers, list) or len(tokens) != len(numbers):
        return None
    others = (
        alternatives if isinstance(alternatives, list) and len(alternatives) == len(tokens) else [None] * len(tokens)
    )
    return [
        {"token": token, "logprob": number, "top_logprobs": _list_alternatives(other)}
        for token, number, other in zip(tokens, numbers, others, strict=True)
    ]


def _list_alternatives(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    return [{"token": token, "logprob": number} for token, number in given.items()]


def _read_token(entry: Any) -> Token | None:
    alternative = _read_alternative(entry)
    if alternative is None:
        return None
    given = entry.get("top_logprobs")
    top = [_read_alternative(one) for one in given] if isinstance(given, list) else []
    return {**alternative, "top_logprobs": [one for one in top if one is not None]}


def _read_alternative(entry: Any) -> Token | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("token"), str):
        return None
    number, data = entry.get("logprob"), entry.get("bytes")
    is_number = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
    return {
        "token": clean(entry["token"]),
        "logprob": number if is_number else LEAST_LOGPROB,
        "bytes": data if isinstance(data, list) and all(map(_is_byte, data)) else None,
    }


def _is_byte(value: Any) -> bool:
    return type(value) is int and 0 <= value <= 255
