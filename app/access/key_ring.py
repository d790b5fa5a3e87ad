"""`KeyRing`: finds the caller whose API key, or JWT, a request carries.

Only the SHA-256 of a key is stored. A key has 256 random bits, too many to guess, so a fast hash is enough. A slow
hash is for passwords that people choose, and would cost every request milliseconds.

The hash is looked up in a dict. The time that this takes may depend on how many bytes of two hashes are equal. That
does not help an attacker: from a part of a hash no key can be computed. So no comparison in constant time is needed.
"""

import base64
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from app.access.caller import Caller, KeysOutdated
from app.errors import InvalidApiKey, ParleyError, StoreDown

if TYPE_CHECKING:  # the package jwt takes time to import
    from app.access.tokens import TokenVerifier

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

KEY_PREFIX = "parley-"
"""So people and secret scanners see what a key is for."""
TOKEN_PREFIX = b"eyJ"
"""A JWT begins with it: a JSON object in base64. No key that `make_key` makes does."""
_BEARER = b"authorization"
_HEADERS = {_BEARER: 0, b"x-api-key": 1, b"api-key": 2, b"x-goog-api-key": 3}
"""The headers that have a key, and their order."""
KEY_HEADERS = frozenset(_HEADERS)
_HOW = "Send the key as Authorization: Bearer <key>, as x-api-key, as api-key or as x-goog-api-key"

_NO_SCHEME = "the header authorization has no `Bearer ` before the key"


def _describe_authorization(value: bytes) -> str:
    """Return what is wrong with a header that is not `Bearer <key>`. The key is not repeated, and a scheme is repeated
    only if it is a known one: it could be a part of a key."""
    words = value.split()
    if not words:
        return "the header authorization is empty"
    if len(words) == 1:
        return "the header authorization has no key after `Bearer`" if words[0].lower() == b"bearer" else _NO_SCHEME
    scheme = words[0].decode("latin-1").lower()
    if scheme.startswith("bearer"):
        return "the header authorization must have `Bearer`, a space and the key"
    known = {"basic": "Basic", "token": "Token", "digest": "Digest", "apikey": "ApiKey", "api-key": "Api-Key"}
    given = f"`{known[scheme]}`" if scheme in known else "another scheme"
    return f"the header authorization has {given} before the key instead of `Bearer`"


def make_key() -> str:
    """Return a new random key."""
    return KEY_PREFIX + base64.urlsafe_b64encode(os.urandom(32)).rstrip(b"=").decode()


def hash_key(key: str) -> str:
    """Return the SHA-256 of a key in hex, as the settings hold it."""
    return hashlib.sha256(key.encode()).hexdigest()


class StoredKey(Struct, frozen=True):
    sha256: str
    """In hex."""
    caller: Caller
    expires: datetime | None = None
    """From this time on the key is refused."""


def _now() -> datetime:
    return datetime.now(UTC)


def _always() -> bool:
    return True


class KeyRing:
    """The API keys of a gateway."""

    def __init__(
        self,
        keys: Iterable[StoredKey],
        anonymous: Caller | None = None,
        now: Callable[[], datetime] = _now,
        is_complete: Callable[[], bool] = _always,
        tokens: "TokenVerifier | None" = None,
        *,
        required: bool = True,
    ) -> None:
        """`anonymous` is the caller of requests without a key; None: they are refused. Until `is_complete` is true,
        there may be keys that could not be read yet. `tokens` verifies JWTs; None: there are no issuers of any.
        `required` says whether a request needs a key even if there are no further ones."""
        self._tokens = tokens
        self._is_complete = is_complete
        self._required = required
        self._keys: Mapping[bytes, StoredKey] = {bytes.fromhex(key.sha256): key for key in keys}
        self._anonymous = anonymous
        self._now = now

    def callers(self) -> list[Caller]:
        """Return the callers of all keys, and those of JWTs that were sent lately."""
        callers = [key.caller for key in self._keys.values()]
        return callers if self._tokens is None else [*callers, *self._tokens.callers()]

    def authenticate(self, headers: Headers) -> Caller:
        """Return the caller of a request with these headers. Raises InvalidApiKey; for a JWT also Forbidden, and
        KeysOutdated if it may be accepted once its issuer's keys are fetched again.

        Clients send the key in different headers, and some send two. The first known key counts.
        """
        given = [header for header in headers if header[0] in _HEADERS]
        if len(given) > 1:
            given.sort(key=lambda header: _HEADERS[header[0]])
        has_key, mistake = False, ""
        refusal: ParleyError | KeysOutdated | None = None
        for name, value in given:
            if name != _BEARER:
                key = value.strip()
            elif value[:7].lower() == b"bearer ":
                key = value[7:].strip()
            else:
                mistake = mistake or _describe_authorization(value)
                continue
            digest = hashlib.sha256(key).digest()
            found = self._keys.get(digest)
            if found is not None:
                return found.caller if found.expires is None else self._check_expiry(found, found.expires)
            if self._tokens is not None and key.startswith(TOKEN_PREFIX):
                try:
                    return self._tokens.authenticate(key, digest)
                except (ParleyError, KeysOutdated) as error:  # another header may have a key
                    if refusal is None or isinstance(error, KeysOutdated):
                        refusal = error
                    continue
            has_key = True
        if refusal is not None:
            raise refusal
        if has_key:
            raise self._refuse_unknown()
        if self._anonymous is not None and mistake != _NO_SCHEME:
            return self._anonymous
        raise self._refuse_without_key(mistake)

    def _refuse_without_key(self, mistake: str) -> ParleyError:
        if not self._required and not self._is_complete():
            return self._refuse_unknown()
        required = f"an API key {'' if self._tokens is None else 'or a JWT '}is required"
        return InvalidApiKey(
            f"{mistake or required}. {_HOW}; the gateway's operator creates keys (parley keys new NAME)"
        )

    def _refuse_unknown(self) -> ParleyError:
        if not self._is_complete():
            return StoreDown("the API keys could not be read yet")
        return InvalidApiKey(
            "this API key is not known here. Check it, or ask the gateway's operator for a new one "
            "(parley keys new NAME)",
            invalid=True,
        )

    def _check_expiry(self, key: StoredKey, expires: datetime) -> Caller:
        name = key.caller.name
        if self._now() >= expires:
            raise InvalidApiKey(
                f"the API key {name!r} expired at {expires.isoformat()}. Ask the gateway's operator for a new one, "
                f"or for a later keys.{name}.expires",
                invalid=True,
            )
        return key.caller
