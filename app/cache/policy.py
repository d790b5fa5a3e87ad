"""What a request says of the cache: by its `cache` object, by the header `x-parley-cache`, whose value is a mode, and
by `Cache-Control`, whose meaning is that of RFC 9111.

The strictest word wins, wherever it stands. Directives of `Cache-Control` that are not known here are ignored, as that
standard wants. What a request says nothing of is decided by the rule of its face (`Apply`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

Mode: TypeAlias = Literal["on", "off", "refresh", "only"]
MODES: tuple[Mode, ...] = get_args(Mode)
Apply: TypeAlias = Literal["always", "deterministic", "on_request"]
"""Which requests the cache is used for: all of them; those whose reply is always the same (temperature 0, or a seed);
or those that ask for it. Who asks for it gets it under each of the three."""

_DIRECTIVE = re.compile(r'([^\s,;="]+)(?:[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|[^\s,]*))?')
_MAX_SECONDS = 2**31
"""What a larger number of seconds counts as."""


@dataclass(frozen=True, slots=True)
class CachePolicy:
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
    only_deterministic: bool = False
    """The cache is bypassed for a request that may be answered in more than one way."""
    label: Literal["bypass", "refresh"] | None = None
    """What the caller is told of the cache where this alone decides it."""

    def without_cache(self) -> "CachePolicy":
        """The same without the cache."""
        return replace(OFF, keep=self.keep)


ON = CachePolicy()
OFF = CachePolicy(read=False, write=False, share=False, label="bypass")
_SILENT: Mapping[Apply, CachePolicy] = {
    "always": ON,
    "deterministic": CachePolicy(only_deterministic=True),
    "on_request": OFF,
}
"""What is done for a request that says nothing of the cache."""
_DIRECTIVES: Mapping[Mode, str] = {"off": "no-store", "refresh": "no-cache", "only": "only-if-cached"}


def make_cache_policy(
    mode: Mode | None = None,
    ttl_seconds: int | None = None,
    headers: Sequence[str] = (),
    *,
    named: Sequence[Mode] = (),
    enabled: bool = True,
    apply: Apply = "always",
) -> CachePolicy:
    """`headers`: the values of every Cache-Control line. `named`: the modes of every `x-parley-cache` line.
    `enabled`: whether the model has a cache at all. `apply`: which requests use it that do not ask for it."""
    modes = {*named} if mode is None else {mode, *named}
    if enabled and not modes and ttl_seconds is None and not headers:
        return _SILENT[apply]
    words, ages = _words(headers)
    keep = "no-store" not in words
    words |= {_DIRECTIVES[mode] for mode in modes if mode in _DIRECTIVES}
    only = "only-if-cached" in words
    if not enabled or "no-store" in words:
        return replace(OFF, only=only, keep=keep)
    asked = bool(modes) or ttl_seconds is not None or only or any(ages)
    if apply == "on_request" and not asked:
        return OFF
    found = CachePolicy(only_deterministic=apply == "deterministic" and not asked, only=only, ttl_seconds=ttl_seconds)
    if "no-cache" in words or 0 in ages:
        return replace(found, read=False, write=not only, share=False, label="refresh")
    return replace(found, write=not only, share=not only, max_age=min(ages, default=None))


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
