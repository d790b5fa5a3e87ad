"""`JwkSet`: the public keys of an issuer of JWTs, from a JSON Web Key Set (RFC 7517).

Only public members of a key are read. Symmetric keys, keys for encryption and keys that are too weak are left out: a
secret in a document that everyone can read signs nothing.
"""

import binascii
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from jwt.algorithms import Algorithm

MAX_KEYS = 100
"""The most keys of a set: identity providers have less than twenty."""
_MAX_SHOWN = 100
_MIN_RSA_BITS, _MAX_RSA_BITS = 2048, 8192
_MAX_EXPONENT_BYTES = 4
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_BY_CURVE = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA", "Ed448": "EdDSA"}
_MEMBERS = {"RSA": ("n", "e"), "EC": ("x", "y"), "OKP": ("x",)}
"""The members of a public key, besides `kty` and `crv`."""


class Jwk(Struct, frozen=True):
    kid: str | None
    """The name of the key in the headers of tokens."""
    algorithms: tuple[str, ...]
    """Those with which it may verify a token."""
    key: Any
    """A public key of `cryptography`."""

    @property
    def label(self) -> str:
        return f"{self.name} ({', '.join(self.algorithms)})"

    @property
    def name(self) -> str:
        """The kid, for the log."""
        return (self.kid or "(no kid)")[:_MAX_SHOWN]


class JwkSet(Struct, frozen=True):
    keys: tuple[Jwk, ...]
    skipped: tuple[str, ...] = ()
    """Why keys of the document are not used, a text for each."""

    def find(self, kid: str | None, algorithm: str) -> list[Jwk]:
        """Return the keys that may have signed a token. A token without the name of its key has any of them."""
        return [key for key in self.keys if algorithm in key.algorithms and (kid is None or key.kid == kid)]

    @property
    def names(self) -> list[str]:
        return [key.name for key in self.keys]


def parse_jwk_set(data: bytes) -> JwkSet:
    """Parse a document. Raises ValueError if it is no set, or has no key with which a token could be verified."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise ValueError("it is not JSON") from None
    rows = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise ValueError('it has no list "keys", as a JSON Web Key Set has')
    if len(rows) > MAX_KEYS:
        raise ValueError(f"it has {len(rows)} keys; at most {MAX_KEYS} can be")
    keys: list[Jwk] = []
    skipped: list[str] = []
    for index, row in enumerate(rows):
        try:
            keys.append(_parse_key(row))
        except ValueError as error:
            kid = row.get("kid") if isinstance(row, dict) else None
            skipped.append(f"key {kid[:_MAX_SHOWN] if isinstance(kid, str) else index}: {error}")
    if not keys:
        raise ValueError(f"no key in it can verify a token ({'; '.join(skipped[:5]) or 'it is empty'})")
    return JwkSet(tuple(keys), tuple(skipped))


def _parse_key(row: Any) -> Jwk:
    """Raises ValueError with the reason why the key is not used."""
    if not isinstance(row, dict):
        raise ValueError("it is not an object")
    kty, crv, alg, kid = (_read_text(row, name) for name in ("kty", "crv", "alg", "kid"))
    if row.get("use", "sig") != "sig":
        raise ValueError("its use is not sig")
    operations = row.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        raise ValueError("its key_ops have no verify")
    if kty not in _MEMBERS:
        raise ValueError("it is a symmetric key" if kty == "oct" else f"its kty is {str(kty)[:100]!r}")
    possible = _RSA if kty == "RSA" else tuple(filter(None, [_BY_CURVE.get(crv or "")]))
    algorithms = tuple(name for name in possible if alg is None or name == alg)
    if not algorithms:
        raise ValueError(f"its crv {str(crv)[:100]!r} and alg {str(alg)[:100]!r} are not supported")
    from jwt.exceptions import PyJWTError

    public = {"kty": kty, "crv": crv, **{name: _read_number(row, name) for name in _MEMBERS[kty]}}
    try:
        key = _find_algorithms()[algorithms[0]].from_jwk(public)
    except (PyJWTError, ValueError, TypeError):
        raise ValueError("its numbers are no public key") from None
    return Jwk(kid, algorithms, key)


@cache
def _find_algorithms() -> "Mapping[str, Algorithm]":
    from jwt.algorithms import get_default_algorithms  # the package jwt takes time to import

    return get_default_algorithms()


def _read_text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"its {name} is not a string")
    return value


def _read_number(row: Mapping[str, Any], name: str) -> str:
    """Return a member in base64url as it is. Raises ValueError if its size is not one of a key that is used."""
    value = row.get(name)
    try:
        number = urlsafe_b64decode(f"{value}==") if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        number = b""
    if not number:
        raise ValueError(f"its {name} is missing or not base64url")
    bits = len(number.lstrip(b"\0")) * 8
    if name == "n" and not _MIN_RSA_BITS <= bits <= _MAX_RSA_BITS:
        raise ValueError(f"it has {bits} bits; RSA keys have {_MIN_RSA_BITS} to {_MAX_RSA_BITS}")
    if name == "e" and bits > _MAX_EXPONENT_BYTES * 8:
        raise ValueError("its e is too large")
    assert isinstance(value, str)
    return value
