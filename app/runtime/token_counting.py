"""Count tokens with tokenizer files, each of which is read once, at start.

An exact count needs the model's `tokenizer.json`, or its ranks in tiktoken's format (`<base64> <rank>` lines). Without
a file, tokens are estimated. Nothing is ever downloaded.
"""

import base64
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from app.chat.messages import TokenCounter

ELLIPSIS = "..."
_SPAN = 32_768
"""How many characters are encoded at once: tokenizers may take very long for a long text without spaces, and they
block other threads meanwhile."""

# One match is about one token: up to six Latin letters (English has four characters per token, spaces included), up to
# three letters of another alphabet, one CJK character, one digit, three punctuation marks, a run of white space.
_PIECE = re.compile(
    r" ?[A-Za-z]{1,6}|[0-9]|[\u2e80-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
    r"| ?[\u0080-\u1fff]{1,3}| ?[!-/:-@\[-`{-~]{1,3}|\s{1,16}|[\s\S]"
)

# Letters, digits one by one or in groups of three, punctuation with the line breaks after it, white space.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DIGITS_BY_THREE = ("cl100k", "o200k")
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


class TokenizerError(Exception):
    """A tokenizer file cannot be used."""


class TokenizersError(Exception):
    """Some tokenizer files cannot be used."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        """`reasons` has the reason for each path."""
        super().__init__("; ".join(reasons.values()))
        self.reasons = reasons


class TokenCounters:
    """The token counters of one process, by the file that a profile names."""

    def __init__(
        self, paths: Iterable[str], default: str | None = None, earlier: "TokenCounters | None" = None
    ) -> None:
        """Load all files, except those that `earlier` has and that have not changed since. Raises TokenizersError."""
        wanted = {*paths, *([default] if default else [])}
        self._versions = {path: _file_version(path) for path in wanted}
        self._loaded: dict[str, TokenCounter] = {}
        reasons: dict[str, str] = {}
        for path in sorted(wanted):
            known = earlier is not None and earlier._versions.get(path, ()) == self._versions[path]
            try:
                self._loaded[path] = (
                    earlier._loaded[path] if earlier is not None and known else load_counter(Path(path))
                )
            except TokenizerError as error:
                reasons[path] = str(error)
        if reasons:
            raise TokenizersError(reasons)
        self._default = self._loaded[default] if default else EstimatingCounter()

    def get(self, path: str | None) -> TokenCounter:
        return self._loaded[path] if path else self._default


def _file_version(path: str) -> tuple[int, ...] | None:
    """Return what differs between two versions of a file; None if it cannot be read."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def load_counter(path: Path) -> TokenCounter:
    """Load a tokenizer file. Raises TokenizerError with the path and the reason."""
    try:
        return _JsonTokenizer(path) if path.suffix == ".json" else _RanksTokenizer(path)
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read ({error.strerror})") from error
    except Exception as error:  # the tokenizers library raises bare Exception
        raise TokenizerError(f"{path}: is not a valid tokenizer file ({error})") from error


class _CachingCounter(ABC):
    """Truncation, which is the same for all counters."""

    @abstractmethod
    def count(self, text: str) -> int: ...

    @abstractmethod
    def _both_ends(self, text: str, left: int, right: int) -> tuple[str, str]:
        """Return the text of the first `left` tokens and of the last `right` tokens."""

    def truncate(self, text: str, limit: int, keep_both_sides: bool = True) -> str:
        if self.count(text) <= limit:
            return text
        ellipsis = self.count(ELLIPSIS)
        target = limit
        while target > 0:
            if keep_both_sides and target > ellipsis:
                left = (target - ellipsis) // 2
                cut = ELLIPSIS.join(self._both_ends(text, left, target - ellipsis - left))
            else:
                cut = self._both_ends(text, target, 0)[0]
            # The joined text may have more tokens than its parts.
            excess = self.count(cut) - limit
            if excess <= 0:
                return cut
            target -= excess
        return ""


class EstimatingCounter(_CachingCounter):
    """Estimates tokens for models without a tokenizer file; it counts too many rather than too few."""

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
        # Imported only if a file is configured, because the import takes long.
        import tokenizers

        self._tokenizer = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def count(self, text: str) -> int:
        return sum(len(self._tokenizer.encode(span, add_special_tokens=False).ids) for span in _spans(text))

    def _both_ends(self, text: str, left: int, right: int) -> tuple[str, str]:
        ends: list[int] = []
        start = 0
        for span in _spans(text):
            encoded = self._tokenizer.encode(span, add_special_tokens=False)
            ends += (start + end for _, end in encoded.offsets)
            start += len(span)
        beginning = text[: ends[left - 1]] if left else ""
        return beginning, text[ends[-right - 1] :] if right else ""


class _RanksTokenizer(_CachingCounter):
    """Byte pair ranks in tiktoken's format. A special token in the text counts as one token."""

    def __init__(self, path: Path) -> None:
        import tiktoken

        ranks: dict[bytes, int] = {}
        for line in path.read_bytes().splitlines():
            if line:
                token, rank = line.split()
                ranks[base64.b64decode(token, validate=True)] = int(rank)
        missing = 256 - sum(bytes([byte]) in ranks for byte in range(256))
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
    """Split the text into spans, and replace lone surrogates, which no tokenizer library accepts."""
    encodable = text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
    return (encodable[start : start + _SPAN] for start in range(0, len(encodable), _SPAN))
