"""`TokenVerifier`: finds the caller whose JWT a request carries (RFC 7519, verified as RFC 8725 says).

The issuer is chosen by the claim `iss`, the key by the header `kid` among those of this issuer only. The algorithm must
be one of the issuer's and one of the key's. Headers that name or hold a key (`jku`, `x5u`, `jwk`, `x5c`) are not read.
A token is verified once, and remembered by its hash until it expires or the issuer's keys change.
"""

import time
from base64 import b64decode
from binascii import Error as Base64Error
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec
from jwt import PyJWS
from jwt.exceptions import PyJWTError
from msgspec import Struct

from app.access.caller import Caller, KeysOutdated
from app.access.issuer import Issuer, make_caller, shorten
from app.access.jwk_set import JwkSet
from app.errors import InvalidToken, StoreDown

MAX_TOKEN_BYTES = 16 * 1024
"""A longer one is refused before it is parsed. Tokens with 200 groups have about 10 KB."""
MAX_REMEMBERED = 10_000
MAX_LISTED = 100
"""Of so many tokens the callers are listed."""
_MAX_TRIED = 8
"""With how many keys a token is tried that does not name its key."""
_MAX_SECONDS = 10**18
"""Numbers in JSON may have any size."""
_verify = PyJWS().decode_complete


class KeySource(Protocol):
    """The keys of an issuer, which are fetched again now and then."""

    @property
    def keys(self) -> JwkSet | None:
        """None: they were never fetched."""

    @property
    def version(self) -> int:
        """Another number after each change of the keys."""

    @property
    def error(self) -> str:
        """Why the last fetch failed; empty if it succeeded."""

    async def refresh(self) -> bool:
        """Fetch the keys now, unless they were fetched a moment ago. Returns whether they have changed."""


class _Verified(Struct, frozen=True):
    caller: Caller
    until: float
    """The Unix time at which the token expires, with the leeway."""
    source: KeySource
    version: int
    """Of the keys that verified it."""


class TokenVerifier:
    """Lives as long as one state of the configuration."""

    def __init__(self, issuers: Iterable[tuple[Issuer, KeySource]], clock: Callable[[], float] = time.time) -> None:
        """`clock` returns the Unix time."""
        self._issuers = {issuer.url: (issuer, source) for issuer, source in issuers}
        self._clock = clock
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()

    def callers(self) -> list[Caller]:
        """Return the callers of the tokens that were verified last."""
        rows = [*self._verified.values()][-MAX_LISTED:]
        return list({row.caller.name: row.caller for row in rows}.values())

    def authenticate(self, token: bytes, digest: bytes) -> Caller:
        """Return the caller of a token. `digest` is its hash.

        Raises InvalidToken, Forbidden, and KeysOutdated.
        """
        now = self._clock()
        known = self._verified.get(digest)
        if known is not None and known.version == known.source.version and now < known.until:
            return known.caller
        header, claims = _parse(token)
        issuer, source = self._find_issuer(claims)
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in issuer.algorithms:
            raise InvalidToken(
                f"the JWT has the algorithm {shorten(algorithm)}; tokens of this issuer must have one of "
                f"{', '.join(sorted(issuer.algorithms))}"
            )
        if source.keys is None:
            raise KeysOutdated(
                source.refresh, StoreDown(f"the keys of the JWT's issuer could not be fetched: {source.error}")
            )
        _check_signature(token, header, source, source.keys)
        until = _check_claims(claims, issuer, now)
        caller = make_caller(claims, issuer)
        self._verified[digest] = _Verified(caller, until, source, source.version)
        if len(self._verified) > MAX_REMEMBERED:
            self._verified.popitem(last=False)
        return caller

    def _find_issuer(self, claims: Mapping[str, Any]) -> tuple[Issuer, KeySource]:
        url = claims.get("iss")
        if not isinstance(url, str):
            raise InvalidToken("the JWT has no issuer (claim `iss`)" if url is None else "the JWT's `iss` is no string")
        found = self._issuers.get(url)
        if found is not None:
            return found
        other = f"{url}/" if not url.endswith("/") else url.rstrip("/")
        if other in self._issuers:
            raise InvalidToken(
                f"the JWT's issuer {shorten(url)} is not known here: it is configured as {other!r}, and a slash at the "
                "end counts. The gateway's operator can correct `issuer`"
            )
        raise InvalidToken(f"the JWT's issuer {shorten(url)} is not known here. Get a token of another issuer")


def _parse(token: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the claims of a token that is not verified. Raises InvalidToken."""
    if len(token) > MAX_TOKEN_BYTES:
        raise InvalidToken(f"the JWT has {len(token)} bytes; at most {MAX_TOKEN_BYTES} are accepted")
    parts = token.split(b".")
    if len(parts) == 5:
        raise InvalidToken("the JWT is encrypted (JWE); only signed ones are accepted")
    if len(parts) != 3:
        raise InvalidToken(f"the JWT has {len(parts)} parts instead of 3: is it complete?")
    header, claims = _decode(parts[0], "header"), _decode(parts[1], "payload")
    if "crit" in header:
        raise InvalidToken("the JWT's header `crit` demands an extension that is not supported")
    if not isinstance(header.get("kid", ""), str):
        raise InvalidToken("the JWT's header `kid` must be a string")
    return header, claims


def _decode(part: bytes, what: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(b64decode(part + b"==", b"-_"), type=dict[str, Any])
    except (Base64Error, ValueError, RecursionError):
        raise InvalidToken(f"the JWT's {what} is not a JSON object in base64url: is the token complete?") from None


def _check_signature(token: bytes, header: Mapping[str, Any], source: KeySource, keys: JwkSet) -> None:
    """Raises InvalidToken and KeysOutdated."""
    kid, algorithm = header.get("kid"), header["alg"]
    found = keys.find(kid, algorithm)
    if not found:
        given = "no `kid`" if kid is None else f"the key id {shorten(kid)}"
        answer = InvalidToken(
            f"the JWT has {given} and the algorithm {algorithm}, and the issuer publishes no such key. Get a new token"
        )
        raise KeysOutdated(source.refresh, answer)
    for key in found[:_MAX_TRIED]:
        try:
            _verify(token, key.key, algorithms=[algorithm])
        except (PyJWTError, ValueError, TypeError):
            continue
        return
    # An issuer may have replaced a key and kept its name.
    raise KeysOutdated(source.refresh, InvalidToken("the JWT's signature is not one of the issuer's keys"))


def _check_claims(claims: Mapping[str, Any], issuer: Issuer, now: float) -> float:
    """Return when the token expires, with the leeway. Raises InvalidToken."""
    expires, begins = _read_time(claims, "exp"), _read_time(claims, "nbf")
    if expires is None:
        raise InvalidToken("the JWT has no claim 'exp', so it would never expire: get one with an end")
    if now >= expires + issuer.leeway_seconds:
        raise InvalidToken(f"the JWT expired at {_format_time(expires)}. Get a new one from its issuer")
    if begins is not None and now < begins - issuer.leeway_seconds:
        raise InvalidToken(
            f"the JWT is valid from {_format_time(begins)} on (claim `nbf`), and here it is {_format_time(now)}. "
            "Check the clocks"
        )
    audience = claims.get("aud")
    given = audience if isinstance(audience, list) else [audience]
    if not any(isinstance(name, str) and name in issuer.audiences for name in given):
        has = "no audience" if audience is None else f"the audience {shorten(audience)}"
        raise InvalidToken(
            f"the JWT has {has} (claim `aud`), so it is not for this gateway. "
            f"Get one for {' or '.join(sorted(issuer.audiences))}"
        )
    return expires + issuer.leeway_seconds


def _read_time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidToken(f"the claim {name!r} of the JWT must be a number of seconds, not {shorten(value)}")
    return float(min(max(value, -_MAX_SECONDS), _MAX_SECONDS))


def _format_time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:g}"
