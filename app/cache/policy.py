"""Decide how a request uses the cache: by its `cache` object, the header `x-parley-cache` and `Cache-Control`.

The value of `x-parley-cache` is a mode; `Cache-Control` has its meaning of RFC 9111. The strictest of them wins.
Unknown directives of `Cache-Control` are ignored, as that standard demands. A request without any of them follows the
rule of its endpoint (`Apply`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

Mode: TypeAlias = Literal["on", "off", "refresh", "only"]
MODES: tuple[Mode, ...] = get_args(Mode)
Apply: TypeAlias = Literal["always", "deterministic", "on_request"]
"""Which requests use the cache: all; those whose reply is always the same (temperature 0, or a seed); or only those
that demand it. A request that demands the cache uses it with each of the three."""

MAX_KEPT_CHARS = 100
"""The policies of requests with longer headers are not kept."""
_DIRECTIVE = re.compile(r'([^\s,;="]+)(?:[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|[^\s,]*))?')
_MAX_SECONDS = 2**31
"""Larger numbers of seconds count as this one."""


class CachePolicy(Struct, frozen=True):
    read: bool = True
    """Whether a stored reply may be returned."""
    write: bool = True
    """Whether the reply may be stored."""
    share: bool = True
    """Whether the request may join a call in progress, and others may join its call."""
    only: bool = False
    """Whether only a stored reply may answer; a miss is then a 504."""
    max_age: int | None = None
    """The maximum age of a stored reply, in seconds."""
    ttl_seconds: int | None = None
    """How long to store the reply; None means the configured time."""
    keep: bool = True
    """Whether the reply may be held for a while so that its caller can resume it."""
    only_deterministic: bool = False
    """Whether the cache is bypassed unless temperature 0 or a seed makes the reply deterministic."""
    label: Literal["bypass", "refresh"] | None = None
    """The cache label of the response, if the policy alone decides it."""

    def without_cache(self) -> "CachePolicy":
        return replace(OFF, keep=self.keep)


ON = CachePolicy()
OFF = CachePolicy(read=False, write=False, share=False, label="bypass")
_SILENT: Mapping[Apply, CachePolicy] = {
    "always": ON,
    "deterministic": CachePolicy(only_deterministic=True),
    "on_request": OFF,
}
"""The policies of requests that do not mention the cache."""
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
    """Combine the cache options of a request.

    `headers` holds the values of all Cache-Control lines and `named` the modes of all `x-parley-cache` lines.
    `enabled` says whether the model has a cache, `apply` which requests use it by default.
    """
    modes = frozenset(named) if mode is None else frozenset((mode, *named))
    if enabled and not modes and ttl_seconds is None and not headers:
        return _SILENT[apply]
    combine = _combine_or_recall if sum(map(len, headers)) <= MAX_KEPT_CHARS else _combine
    return combine(modes, ttl_seconds, tuple(headers), enabled, apply)


def _combine(
    modes: frozenset[Mode], ttl_seconds: int | None, headers: tuple[str, ...], enabled: bool, apply: Apply
) -> CachePolicy:
    words, ages = _words(headers)
    keep = "no-store" not in words
    words |= {_DIRECTIVES[mode] for mode in modes if mode in _DIRECTIVES}
    only = "only-if-cached" in words
    if not enabled or "no-store" in words:
        return replace(OFF, only=only, keep=keep)
    requested = bool(modes) or ttl_seconds is not None or only or any(ages)
    if apply == "on_request" and not requested:
        return OFF
    only_deterministic = apply == "deterministic" and not requested
    policy = CachePolicy(only_deterministic=only_deterministic, only=only, ttl_seconds=ttl_seconds)
    if "no-cache" in words or 0 in ages:
        return replace(policy, read=False, write=not only, share=False, label="refresh")
    return replace(policy, write=not only, share=not only, max_age=min(ages, default=None))


_combine_or_recall = lru_cache(maxsize=256)(_combine)
"""Nearly all requests have one of a few combinations of options."""


def _words(headers: Iterable[str]) -> tuple[set[str], list[int]]:
    """Return the names of all directives, and the values of every max-age."""
    directives = list(_directives(headers))
    return {name for name, _ in directives}, [_seconds(value) for name, value in directives if name == "max-age"]


def _directives(headers: Iterable[str]) -> Iterator[tuple[str, str]]:
    for header in headers:
        for name, value in _DIRECTIVE.findall(header):
            yield name.lower(), value.strip('"')


def _seconds(text: str) -> int:
    """Parse a max-age. A value that is not a number counts as 0, which demands a new reply."""
    digits = text if text.isascii() and text.isdigit() else "0"
    return _MAX_SECONDS if len(digits) > 9 else int(digits)
