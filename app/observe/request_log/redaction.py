"""Remove from what is logged what a `Find` finds: keys, and with `content = "masked"` personal data.

A body is JSON, or a stream of frames with JSON. Only the values of its strings are changed, so it stays what it is. In
a stream a value may be cut by deltas: so the strings with one name are looked at together, as a client joins them. Long
data, such as an image, is replaced by its size and its hash.
"""

import hashlib
import json
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from app.observe.request_log.entry import Figures, Part
from app.runtime.personal_forms import find_cards, find_ibans
from app.runtime.secret_forms import SECRET_NAMES, find_secrets_in_log


class Span(NamedTuple):
    """A part of a text, and what stands in its place."""

    start: int
    end: int
    replacement: str


Find: TypeAlias = Callable[[str], Sequence[Span]]
"""Finds what must not be kept, in the order of the text and without overlaps."""

REMOVED = "[redacted]"
_LITERAL = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"(\s*+:\s*+)?+', re.DOTALL)
"""A string, and whether it is the name of what follows."""
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[^,]{0,200};base64,")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
MIN_DATA = 4096
"""A longer text of base64 is data: an image, a file, audio, a sealed reasoning."""
_LINE = re.compile(rb"^(data: ?)?([^\r\n]+)", re.MULTILINE)
_json = msgspec.json.Decoder(msgspec.Raw)


class _Literal(NamedTuple):
    start: int
    end: int
    """In the body, within the quotes."""
    text: str


class Edit(NamedTuple):
    start: int
    end: int
    data: bytes


def redact_json(data: bytes, find: Find) -> bytes:
    """Return JSON, or a part of it that begins and ends outside of strings, without what is found in its strings."""
    return apply_edits(data, find_edits(data, find))


def find_edits(data: bytes, find: Find) -> list[Edit]:
    """Return the changes that `redact_json` makes: each is of all between two quotes."""
    literals = list(_LITERAL.finditer(data))
    places = [match.span(1) for match in literals]
    texts = [_read(match[1]) for match in literals]
    of_secrets = {
        number + 1
        for number, (name, value) in enumerate(pairwise(literals))
        if name[2] is not None and name.end() == value.start() and value[1] and texts[number] in SECRET_NAMES
    }
    starts = [0, *accumulate([len(text) + 1 for text in texts])]
    found = {number for number, text in enumerate(texts) if len(text) >= MIN_DATA or ";base64," in text}
    for span in find("\n".join(texts)):  # one search of all is as fast as one of a few strings
        found.update(range(bisect_right(starts, span.start) - 1, bisect_left(starts, span.end)))
    edits = []
    for number in sorted(found | of_secrets):
        changed = REMOVED if number in of_secrets else redact_text(_replace_data(texts[number]), find)
        if changed != texts[number]:
            edits.append(Edit(*places[number], _write(changed)))
    return edits


def read_escapes(data: bytes) -> str:
    """Return JSON as a text in which a value of its strings looks as it is, if it has no escapes of numbers. White
    space takes two places."""
    text = data.decode("utf-8", "replace")
    if "\\" in text:
        text = text.replace("\\\\", "\x7f\x7f").replace('\\"', '"')
        for escape in ("\\n", "\\t", "\\r", "\\b", "\\f"):
            text = text.replace(escape, "  ")
    return text


def redact_plain(data: bytes, find: Find) -> bytes:
    """Return what is not JSON without what is found in it."""
    text = data.decode("utf-8", "surrogateescape")
    changed = redact_text(text, find)
    return data if changed == text else changed.encode("utf-8", "surrogateescape")


def redact_whole(data: bytes, find: Find) -> bytes:
    """Return a body that is no stream without what is found in it."""
    return redact_json(data, find) if is_json(data) else redact_plain(data, find)


def join_parts(parts: Sequence[Part], data: bytes) -> tuple[Part, ...]:
    """Return one part, the last, with all of the bytes."""
    return ((parts[-1][0], len(data)),) if parts else ()


def redact_text(text: str, find: Find) -> str:
    parts, done = [], 0
    for span in find(text):
        parts += [text[done : span.start], span.replacement]
        done = span.end
    return "".join([*parts, text[done:]]) if parts else text


def list_texts(figures: Figures) -> list[str]:
    """Return the texts among the figures that callers choose, or that quote them."""
    return [*figures.warnings, figures.model, figures.requested_model]


def redact_figures(figures: Figures, find: Find) -> Figures:
    return replace(
        figures,
        warnings=tuple([redact_text(one, find) for one in figures.warnings]),
        model=redact_text(figures.model, find),
        requested_model=redact_text(figures.requested_model, find),
    )


def is_json(data: bytes) -> bool:
    try:
        _json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def is_stream(data: bytes) -> bool:
    return data.startswith(b"data:") or data.find(b"\ndata:", 0, 4096) >= 0


def redact_stream(data: bytes, parts: Sequence[Part], find: Find) -> tuple[bytes, tuple[Part, ...]]:
    """Return the bytes of a stream without what is found in them, and the sizes that its parts then have."""
    by_name: dict[bytes, list[_Literal]] = {}
    edits: list[Edit] = []
    for line in _LINE.finditer(data):
        start, end = line.span(2)
        if line[1] is None or not is_json(line[2]):  # a comment, another field, what is not JSON, or the cut end
            changed = redact_plain(line[2], find)
            edits += [] if changed == line[2] else [Edit(start, end, changed)]
            continue
        for name, literal in _find_literals(data, start, end):
            if literal.text and _read(name) in SECRET_NAMES:
                edits.append(Edit(literal.start, literal.end, REMOVED.encode()))
            else:
                by_name.setdefault(name, []).append(literal)
    edits = sorted(chain(edits, *(_edit_joined(literals, find) for literals in by_name.values())))
    return (apply_edits(data, edits), move_parts(parts, edits)) if edits else (data, tuple(parts))


def _edit_joined(literals: Sequence[_Literal], find: Find) -> Iterator[Edit]:
    """Yield the changes of strings that are looked at as one text. A span over several of them is replaced in the first
    one."""
    texts = [_replace_data(literal.text) for literal in literals]
    starts = [0, *accumulate(map(len, texts))]
    kept: dict[int, list[str]] = {}
    done: dict[int, int] = {}
    for span in find("".join(texts)):
        replacement = span.replacement
        for index in range(bisect_right(starts, span.start) - 1, len(texts)):
            if starts[index] >= span.end:
                break
            begin, stop = max(span.start, starts[index]), min(span.end, starts[index + 1])
            own = kept.setdefault(index, [])
            own += [texts[index][done.get(index, 0) : begin - starts[index]], replacement]
            done[index], replacement = stop - starts[index], ""
    for index, literal in enumerate(literals):
        if index in kept:
            yield Edit(literal.start, literal.end, _write("".join(kept[index]) + texts[index][done[index] :]))
        elif texts[index] is not literal.text:
            yield Edit(literal.start, literal.end, _write(texts[index]))


def apply_edits(data: bytes, edits: Sequence[Edit]) -> bytes:
    if not edits:
        return data
    pieces, done = [], 0
    for edit in edits:
        pieces += [data[done : edit.start], edit.data]
        done = edit.end
    return b"".join([*pieces, data[done:]])


def move_parts(parts: Sequence[Part], edits: Sequence[Edit]) -> tuple[Part, ...]:
    """Return the parts of bytes that were edited. A border within a changed text is behind it afterwards."""
    moved: list[Part] = []
    place = shift = last = number = 0
    for milliseconds, size in parts:
        place += size
        while number < len(edits) and edits[number].start < place:
            edit = edits[number]
            shift += len(edit.data) - (edit.end - edit.start)
            number += 1
        border = place if not number else max(place, edits[number - 1].end)
        moved.append((milliseconds, border + shift - last))
        last = border + shift
    return tuple(moved)


def _find_literals(data: bytes, begin: int = 0, stop: int = sys.maxsize) -> Iterator[tuple[bytes, _Literal]]:
    """Yield the strings of JSON, each with the last name before it. The names themselves have none."""
    name = b""
    for match in _LITERAL.finditer(data, begin, stop):
        start, end = match.span(1)
        literal = _Literal(start, end, _read(match[1]))
        if match[2] is None:
            yield name, literal
        else:
            name = match[1]
            yield b"", literal


def _read(literal: bytes) -> str:
    """Return the text of what stands between two quotes."""
    if b"\\" in literal:
        try:
            text: str = json.loads(b'"%b"' % literal)
            return text
        except ValueError:
            pass
    return literal.decode("utf-8", "replace")


def _write(text: str) -> bytes:
    """Write the inside of a JSON string."""
    return json.dumps(text, ensure_ascii=not text.isprintable()).encode("utf-8", "replace")[1:-1]


def _replace_data(text: str) -> str:
    """Return the kind, size and hash of data in place of it."""
    url = _DATA_URL.match(text)
    if url is not None:
        return f"[{url[1] or 'data'}, {_describe_data(text[url.end() :])}]"
    if len(text) >= MIN_DATA and _BASE64.fullmatch(text):
        return f"[data, {_describe_data(text)}]"
    return text


def _describe_data(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{len(text) * 3 // 4} bytes, hash {digest}"


# What is found.

_BEFORE_AT = re.compile(r"[\w.+%-]{1,64}$")
_AFTER_AT = re.compile(r"@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])")


def make_finder(forms: Sequence[str], *, personal: bool, others: Sequence[Find] = ()) -> Find:
    """Return what finds these texts and keys of known shapes, and with `personal` addresses of mail, numbers of cards,
    IBANs and what `others` find."""
    exact = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True)))) if forms else None

    def find_plain(text: str) -> list[Span]:
        found = [Span(*match.span(), REMOVED) for match in exact.finditer(text)] if exact is not None else []
        found += [Span(*place, REMOVED) for place in find_secrets_in_log(text)]
        if personal:
            found += _find_personal(text)
            found += [span for find_others in others for span in find_others(text)]
        return found

    def find(text: str) -> list[Span]:
        found = find_plain(text)
        if "\\u" in text or "\\/" in text:
            found += _find_behind_escapes(text, find_plain)
        return sort_spans(found) if found else found

    return find


def _find_behind_escapes(text: str, find: Find) -> list[Span]:
    """Return what is found in a text with JSON, such as arguments of calls, behind its escapes, at any depth."""
    parts: list[str] = []
    starts: list[int] = []
    """Of each character, in the text."""
    done = 0
    for match in _ESCAPE.finditer(text):
        parts += (text[done : match.start()], chr(int(match[1], 16)) if match[1] else "/")
        starts += (*range(done, match.start()), match.start())
        done = match.end()
    starts += range(done, len(text) + 1)
    return [
        Span(starts[span.start], starts[span.end], span.replacement) for span in find("".join((*parts, text[done:])))
    ]


_ESCAPE = re.compile(r"\\++(?:u([0-9A-Fa-f]{4})|/)")
_TOKEN = re.compile(r"[A-Za-z0-9_]+|[^A-Za-z0-9_\s]")
_GOES_ON = re.compile(r"[A-Za-z0-9_]")


def add_values(find: Find, values: Mapping[str, str]) -> Find:
    """Return what also finds these values, of some kinds, where they are no part of a longer word."""
    by_token: dict[str, list[tuple[str, str]]] = {}
    for value, kind in values.items():
        token = _TOKEN.match(value.strip())
        if token is not None:
            by_token.setdefault(token[0], []).append((value.strip(), f"[{kind}]"))

    def find_values(text: str) -> Iterator[Span]:
        for token in _TOKEN.finditer(text):
            for value, replacement in by_token.get(token[0], ()):
                end = token.start() + len(value)
                if text.startswith(value, token.start()) and not (
                    _GOES_ON.match(value[-1]) and _GOES_ON.match(text, end)
                ):
                    yield Span(token.start(), end, replacement)

    def find_all(text: str) -> Sequence[Span]:
        hidden = [*find_values(text)]
        return sort_spans([*find(text), *hidden]) if hidden else find(text)

    return find_all


def sort_spans(found: Iterable[Span]) -> list[Span]:
    """Return spans in the order of the text, without those that overlap an earlier or a longer one."""
    kept: list[Span] = []
    for span in sorted(found, key=lambda one: (one.start, -one.end)):
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
    return kept


def _find_personal(text: str) -> Iterator[Span]:
    if "@" in text:
        yield from _find_addresses(text)
    yield from (Span(*place, "[CARD]") for place in find_cards(text))
    yield from (Span(*place, "[IBAN]") for place in find_ibans(text))


def _find_addresses(text: str) -> Iterator[Span]:
    for match in _AFTER_AT.finditer(text):
        name = _BEFORE_AT.search(text, max(0, match.start() - 65), match.start())
        if name is not None:
            yield Span(name.start(), match.end(), "[EMAIL]")
