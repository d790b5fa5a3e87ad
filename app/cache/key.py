"""The cache key: equal for two requests exactly when the reply to one also answers the other.

The key is a hash of the body that each deployment of the route would be sent, and of how its reply would be read. What
is not sent does not count, whatever format the conversation came in.

Messages are compared byte for byte as they are sent; the gateway fixes the order of their keys. In everything else the
order of keys does not count, except in the `properties` of JSON schemas, because constrained models write in that
order. Numbers are compared as sent: the gateway sends 1 and 1.0 alike for a parameter that it knows, but where it
passes values on unread (`extra_body`, schemas) they differ. Streaming does not count: the reply is the same.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct


class KeyPart(Struct, frozen=True):
    """One deployment that may serve the request."""

    base_url: str
    model: str
    """The server's own name of the model."""
    body: bytes
    """The request body: a JSON object."""
    traits: Mapping[str, Any]
    """The properties of the request that change how its reply is read (`reply_traits`)."""
    profile: Mapping[str, Any] | msgspec.Raw
    """The fields of the profile that change how replies are read (`select_reply_fields`). As `Raw`, its keys must be
    sorted."""
    headers: Sequence[tuple[str, str]] = ()
    """The configured headers that may change the server's answer; its API key is not one of them."""


VERSION = 2
"""Increased whenever the form of the key changes."""
PREPROCESSING = 4
"""Increased whenever the processing changes what an identical request sends, or what an identical reply becomes."""

_UNHASHED_FIELDS = ("stream", "stream_options")
_NO_MESSAGES = msgspec.Raw(b"")
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder(order="sorted").encode


def cache_key(parts: Sequence[KeyPart], scope: str) -> str:
    """Return 64 hexadecimal digits. `scope` names the callers that share replies; two scopes never share a key."""
    digests: dict[int, str] = {}
    deployments = []
    for part in parts:
        digest = digests.get(id(part.body))
        if digest is None:
            digest = digests[id(part.body)] = _digest(part.body)
        deployments.append([part.base_url, part.headers, part.model, part.traits, part.profile, digest])
    return _hash(_encode([VERSION, PREPROCESSING, scope, deployments])).hexdigest()


def _digest(body: bytes) -> str:
    """Hash the canonical form of a body. The messages may be very large, so they are neither decoded nor copied."""
    fields = _fields(body)
    messages = fields.pop("messages", _NO_MESSAGES)
    for name in _UNHASHED_FIELDS:
        fields.pop(name, None)
    for name, value in fields.items():
        if _is_canonical(value) is None:
            fields[name] = msgspec.Raw(_canonical(value))
    hashed = _hash(_encode(fields))  # a JSON object: where it ends and the messages begin is certain
    hashed.update(messages)
    return hashed.hexdigest()


_is_canonical = re.compile(rb'"[ !#-\[\]-~]*"|0|-?[1-9][0-9]{0,15}|true|false|null').fullmatch
"""Whether a value is hashed as it was sent: `_canonical` would return the same bytes."""


def _canonical(raw: msgspec.Raw) -> bytes:
    value = msgspec.json.decode(raw)
    return _encode(_mark_order(value) if b'"properties"' in bytes(raw) else value)


def _mark_order(value: Any) -> Any:
    """Replace objects called `properties` by `{"ordered": pairs}`, so that sorting keys keeps their order."""
    if isinstance(value, list):
        return [_mark_order(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {"ordered": [[name, _mark_order(inner)] for name, inner in item.items()]}
        if key == "properties" and isinstance(item, dict)
        else _mark_order(item)
        for key, item in value.items()
    }


def _hash(data: bytes = b"") -> "hashlib.blake2b":
    return hashlib.blake2b(data, digest_size=32)
