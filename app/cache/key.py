"""The name under which a reply is kept: equal for two requests exactly when one's reply is an answer to the other.

It is a hash of what each way of the route would be sent and of how its reply would be read, so that nothing that is
not sent counts, whatever format a conversation came in.

What is equal: the messages byte for byte as they are sent (their order of keys is the gateway's own); everything else
whatever the order of its keys, save for the `properties` of JSON schemas, since constrained models write in that
order. Numbers are those that are sent: the gateway sends 1 and 1.0 alike for a parameter that it knows, but where they
are passed on unread (`extra_body`, schemas) they are two. Whether the server is asked to stream does not count: a reply
is the same in one piece.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

VERSION = 1
"""Raised whenever the form of the key changes."""
PREPROCESSING = 2
"""Raised whenever steps, payload or assembly change what is made of an equal request or of an equal reply."""


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One way that a request may take."""

    base_url: str
    model: str
    """The server's own name for it."""
    body: bytes
    """What is sent: a JSON object."""
    traits: Mapping[str, Any]
    """How the request has its reply read (`steps.reply_traits`)."""
    profile: Mapping[str, Any]
    """How the profile has replies read (`profiles.reading`)."""
    headers: Sequence[tuple[str, str]] = ()
    """Those that are configured for the server and may change what it answers; its key is none of them."""


_UNHASHED_FIELDS = frozenset({"stream", "stream_options"})
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder(order="sorted").encode


def cache_key(parts: Sequence[KeyPart], scope: str) -> str:
    """64 hexadecimal digits. `scope` names those who may share a reply; no two scopes ever have a key in common."""
    digests: dict[int, str] = {}
    ways = []
    for part in parts:
        digest = digests.get(id(part.body))
        if digest is None:
            digest = digests[id(part.body)] = _digest(part.body)
        ways.append([part.base_url, part.headers, part.model, part.traits, part.profile, digest])
    return _hash(_encode([VERSION, PREPROCESSING, scope, ways])).hexdigest()


def _digest(body: bytes) -> str:
    """Of the canonical form. The messages, which may hold whole films, are neither decoded nor copied."""
    fields = _fields(body)
    hashed = _hash()
    for name in sorted(fields.keys() - _UNHASHED_FIELDS):
        value: Any = fields[name] if name == "messages" else _canonical(fields[name])
        hashed.update(_encode([name, len(memoryview(value))]))
        hashed.update(value)
    return hashed.hexdigest()


def _canonical(raw: msgspec.Raw) -> bytes:
    value = msgspec.json.decode(raw)
    return _encode(_mark_order(value) if b'"properties"' in bytes(raw) else value)


def _mark_order(value: Any) -> Any:
    """Objects called `properties` as lists of pairs, each in an object of its own: a list that was one stays one."""
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
