"""How a request uses the cache, by its body and its headers."""

from app.api.asgi import Scope
from app.cache import MODES, Apply, CachePolicy, Mode, make_cache_policy
from app.errors import InvalidInput, Violation
from app.formats.body import CacheControl
from app.routing import ModelRoute

CACHE_HEADER = b"x-parley-cache"
"""Its value is a mode of the cache. It is for clients that can set a header but no field of the body."""
_CACHE_HEADERS = frozenset((b"cache-control", CACHE_HEADER))


def read_cache_policy(control: CacheControl | None, scope: Scope, route: ModelRoute, apply: Apply) -> CachePolicy:
    """Read the policy. `control` is what the body says, and `apply` which requests use the cache that say nothing.
    Raises InvalidInput for an unknown mode."""
    mode, ttl_seconds = (None, None) if control is None else (control.mode, control.ttl_seconds)
    lines: tuple[tuple[bytes, bytes], ...] = ()
    read = scope["state"]["headers"]
    if b"cache-control" in read or CACHE_HEADER in read:
        lines = tuple([line for line in scope["headers"] if line[0] in _CACHE_HEADERS])
    named = [_parse_cache_mode(value.decode("latin-1")) for name, value in lines if name == CACHE_HEADER]
    headers = [value.decode("latin-1") for name, value in lines if name != CACHE_HEADER]
    return make_cache_policy(
        mode, ttl_seconds, headers, named=named, enabled=route.cache_seconds is not None, apply=apply
    )


def _parse_cache_mode(value: str) -> Mode:
    mode = next((mode for mode in MODES if mode == value.strip().lower()), None)
    if mode is None:
        raise InvalidInput([Violation(CACHE_HEADER.decode(), f"must be one of {', '.join(MODES)}")])
    return mode
