"""What a request says of the cache: by its `cache` object and by `Cache-Control`, whose meaning is that of RFC 9111.

The strictest word wins, wherever it stands. What is not known here is ignored, as that standard wants.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Mode: TypeAlias = Literal["on", "off", "refresh", "only"]

_DIRECTIVE = re.compile(r'([^\s,;="]+)(?:[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|[^\s,]*))?')
_MAX_SECONDS = 2**31
"""What a larger number of seconds counts as."""


@dataclass(frozen=True, slots=True)
class Control:
    read: bool = True
    """A kept reply will do."""
    write: bool = True
    """The reply may be kept."""
    share: bool = True
    """A reply that is on its way to somebody else will do, and others may have this one."""
    only: bool = False
    """No model server is to be asked: what cannot be read is a 504."""
    max_age: int | None = None
    """Seconds: a reply that was kept longer will not do."""
    ttl_seconds: int | None = None
    """How long the reply is to be kept; None: as long as is usual."""
    keep: bool = True
    """The reply may be held for a while, so that its caller can come back for it."""
    label: Literal["bypass", "refresh"] | None = None
    """What the caller is told of the cache where this alone decides it."""


ON = Control()
OFF = Control(read=False, write=False, share=False, label="bypass")


def control(
    mode: Mode | None = None, ttl_seconds: int | None = None, headers: Sequence[str] = (), *, enabled: bool = True
) -> Control:
    """`headers`: the values of every Cache-Control line. `enabled`: whether the model has a cache at all."""
    said = {"off": "no-store", "refresh": "no-cache", "only": "only-if-cached"}.get(mode or "on")
    if enabled and said is None and ttl_seconds is None and not headers:
        return ON
    words, ages = _words(headers)
    keep = "no-store" not in words
    if said is not None:
        words.add(said)
    only = "only-if-cached" in words
    if not enabled or "no-store" in words:
        return replace(OFF, only=only, keep=keep)
    if "no-cache" in words or 0 in ages:
        return Control(read=False, write=not only, share=False, only=only, ttl_seconds=ttl_seconds, label="refresh")
    return Control(write=not only, share=not only, only=only, max_age=min(ages, default=None), ttl_seconds=ttl_seconds)


def _words(headers: Iterable[str]) -> tuple[set[str], list[int]]:
    """The directives by name, and every max-age."""
    found = list(_directives(headers))
    return {name for name, _ in found}, [_seconds(value) for name, value in found if name == "max-age"]


def _directives(headers: Iterable[str]) -> Iterator[tuple[str, str]]:
    for header in headers:
        for name, value in _DIRECTIVE.findall(header):
            yield name.lower(), value.strip('"')


def _seconds(text: str) -> int:
    """What is no number is 0: who cannot tell how old a reply may be gets a new one."""
    digits = text if text.isascii() and text.isdigit() else "0"
    return _MAX_SECONDS if len(digits) > 9 else int(digits)
