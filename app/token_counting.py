"""Counting tokens: the only reader of tokenizer files. Each is read once, at start; what comes out of it counts purely.

A model's own count needs its `tokenizer.json`, or its ranks in tiktoken's form (`<base64> <rank>` lines). Without any
file tokens are estimated. Nothing is ever downloaded.
"""

import base64
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path

from app.chat.token_counter import TokenCounter

ELLIPSIS = "..."
_SPAN = 32_768
"""Characters that are encoded at once: tokenizers take time without bound for long texts without a space, and other
threads wait while one span is counted."""

# One piece is about one token: up to six Latin letters (English has four characters a token, its blanks counted),
# up to three letters of another alphabet, one CJK character, one digit, three signs of punctuation, a run of blanks.
_PIECE = re.compile(
    r" ?[A-Za-z]{1,6}|[0-9]|[\u2e80-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
    r"| ?[\u0080-\u1fff]{1,3}| ?[!-/:-@\[-`{-~]{1,3}|\s{1,16}|[\s\S]"
)

# Letters apart from digits, digits one by one or by three, signs with the line breaks behind them, blanks.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DIGITS_BY_THREE = ("cl100k", "o200k")
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


class TokenizerError(Exception):
    """A tokenizer file that cannot be used."""


class TokenCounters:
    """The counters of one process, by the file that a profile names."""

    def __init__(self, paths: Iterable[str], default: str | None = None) -> None:
        """Raises TokenizerError."""
        wanted = {*paths, *([default] if default else [])}
        self._loaded: dict[str, TokenCounter] = {path: load_counter(Path(path)) for path in sorted(wanted)}
        self._default = self._loaded[default] if default else EstimatingCounter()

    def get(self, path: str | None) -> TokenCounter:
        return self._loaded[path] if path else self._default


def load_counter(path: Path) -> TokenCounter:
    """Raises TokenizerError with the path and what is wrong."""
    try:
        return _JsonTokenizer(path) if path.suffix == ".json" else _RanksTokenizer(path)
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read ({error.strerror})") from error
    except Exception as error:  # the tokenizers library raises bare Exception
        raise TokenizerError(f"{path}: is no tokenizer ({error})") from error


class _CachingCounter(ABC):
    """What all counters do alike; they differ in what a token is."""

    @abstractmethod
    def count(self, text: str) -> int: ...

    @abstractmethod
    def _both_ends(self, text: str, left: int, right: int) -> tuple[str, str]:
        """The first `left` and the last `right` tokens of the text, as text."""

    def truncate(self, text: str, limit: int, keep_both_sides: bool = True) -> str:
        if self.count(text) <= limit:
            return text
        ellipsis = self.count(ELLIPSIS)
        aim = limit
        while aim > 0:
            if keep_both_sides and aim > ellipsis:
                left = (aim - ellipsis) // 2
                cut = ELLIPSIS.join(self._both_ends(text, left, aim - ellipsis - left))
            else:
                cut = self._both_ends(text, aim, 0)[0]
            # Where tokens that were apart meet, they may be counted otherwise.
            over = self.count(cut) - limit
            if over <= 0:
                return cut
            aim -= over
        return ""


class EstimatingCounter(_CachingCounter):
    """For models whose tokenizer is not known; rather too many than too few."""

    def count(self, text: str) -> int:
        return sum(len(_pieces(text, start)) for start in range(0, len(text), _SPAN))

    def _both_ends(self, text: str, left: int, right: int) -> tuple[str, str]:
        starts = range(0, len(text), _SPAN)
        first: list[str] = []
        last: list[str] = []
        for start in starts:
            if len(first) >= left:
                break
            first += _pieces(text, start)
        for start in reversed(starts):
            if len(last) >= right:
                break
            last = _pieces(text, start) + last
        return "".join(first[:left]), "".join(last[len(last) - right :])


def _pieces(text: str, start: int) -> list[str]:
    return _PIECE.findall(text, start, start + _SPAN)


class _JsonTokenizer(_CachingCounter):
    """A `tokenizer.json` of the tokenizers library."""

    def __init__(self, path: Path) -> None:
        # Imported where a file is named: it costs start-up time.
        import tokenizers

        self._tokenizer = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def count(self, text: str) -> int:
        return sum(len(self._tokenizer.encode(span, add_special_tokens=False).ids) for span in _spans(text))

    def _both_ends(self, text: str, left: int, right: int) -> tuple[str, str]:
        places: list[int] = []
        start = 0
        for span in _spans(text):
            encoded = self._tokenizer.encode(span, add_special_tokens=False)
            places += (start + end for _, end in encoded.offsets)
            start += len(span)
        beginning = text[: places[left - 1]] if left else ""
        return beginning, text[places[-right - 1] :] if right else ""


class _RanksTokenizer(_CachingCounter):
    """Byte pair ranks in tiktoken's form. Special tokens count as one where the text has them."""

    def __init__(self, path: Path) -> None:
        import tiktoken

        ranks: dict[bytes, int] = {}
        for line in path.read_bytes().splitlines():
            if line:
                token, rank = line.split()
                ranks[base64.b64decode(token, validate=True)] = int(rank)
        missing = 256 - sum(bytes([one]) in ranks for one in range(256))
        if missing:
            raise ValueError(f"{missing} of the 256 bytes have no rank")
        digits = "{1,3}" if path.stem.startswith(_DIGITS_BY_THREE) else ""
        special = {text: max(ranks.values()) + number for number, text in enumerate(_SPECIAL, 1)}
        self._encoding = tiktoken.Encoding(
            path.stem, pat_str=_SPLIT % digits, mergeable_ranks=ranks, special_tokens=special
        )

    def count(self, text: str) -> int:
        return len(self._ids(text))

    def _both_ends(self, text: str, left: int, right: int) -> tuple[str, str]:
        ids = self._ids(text)
        return self._text(ids[:left]), self._text(ids[len(ids) - right :])

    def _ids(self, text: str) -> list[int]:
        spans = _spans(unicodedata.normalize("NFC", text))
        return [id_ for span in spans for id_ in self._encoding.encode(span, allowed_special="all")]

    def _text(self, ids: list[int]) -> str:
        return self._encoding.decode_bytes(ids).decode("utf-8", "ignore")


def _spans(text: str) -> Iterator[str]:
    """The text in spans, lone surrogates replaced, which no library takes."""
    sound = text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
    return (sound[start : start + _SPAN] for start in range(0, len(sound), _SPAN))
