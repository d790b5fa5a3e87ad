"""`Placeholders`: the words that stand for masked values, and the values of one request by their words.

A word is a keyed hash of its value, not a number: so a value has the same word in all turns, workers and gateways,
prompts keep their beginning, and no table must be kept.
"""

import base64
import hmac
import re
from collections.abc import Iterable

KIND = re.compile(r"[A-Z_]{2,16}")


class Placeholders:
    """Grows while the requests of one reply are admitted. `values` is what a reply may have restored."""

    def __init__(self, key: bytes, scope: str) -> None:
        self._key = key
        self.scope = scope
        self.values: dict[str, str] = {}
        """By their words: `EMAIL_YGDF6NR7`."""
        self.words: dict[tuple[str, str], str] = {}
        """By kind and value."""

    def mask(self, kind: str, value: str) -> str:
        """Return the placeholder of a value: `[EMAIL_YGDF6NR7]`."""
        word = self.words.get((kind, value))
        if word is None:
            word = self._make_word(kind, value)
            self.words[kind, value] = word
            self.values[word] = value
        return f"[{word}]"

    def _make_word(self, kind: str, value: str) -> str:
        data = b"\0".join(text.encode("utf-8", "surrogatepass") for text in (self.scope, kind, value))
        digest = base64.b32encode(hmac.digest(self._key, data, "sha256")).decode()
        word = f"{kind}_{digest[:8]}"
        if self.values.get(word, value) != value:
            word = f"{kind}_{digest[8:16]}"
        return word

    def add(self, words: Iterable[tuple[tuple[str, str], str]]) -> None:
        """Add what an earlier request of the conversation has found."""
        for (kind, value), word in words:
            if self.words.setdefault((kind, value), word) == word:
                self.values.setdefault(word, value)
