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

from app.chat.known_conversation import KnownConversation, make_once


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
    beginning: bytes = b""
    """The first of the messages in the body, with commas between, whose hash is remembered."""
    conversation: str = "messages"
    """The field of the body with the messages."""
    known: KnownConversation | None = None
    """Remembers hashes for the next request of the conversation; None: nothing is remembered."""


VERSION = 4
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
            digest = digests[id(part.body)] = _digest(part, f"{part.base_url} {part.model}")
        deployments.append([part.base_url, part.headers, part.model, part.traits, part.profile, digest])
    return _hash(_encode([VERSION, PREPROCESSING, scope, deployments])).hexdigest()


def _digest(part: KeyPart, server: str) -> str:
    """Hash the canonical form of a body. The messages may be very large, so they are neither decoded nor copied. Of
    those at the beginning, only the ones that are not known for this server are hashed."""
    body, beginning, known = part.body, part.beginning, part.known
    start = _find_list(body, part.conversation) if beginning else -1
    if known is None or start < 0 or not body.startswith(beginning + b",", start):
        fields = _fields(body)
        messages = _hash(fields.pop(part.conversation, _NO_MESSAGES))
    else:
        fields = _fields(body[:start] + body[start + len(beginning) + 1 :])
        messages = _hash_beginning(beginning, known, server)
        messages.update(b"," + bytes(fields.pop(part.conversation))[1:])
    for name in _UNHASHED_FIELDS:
        fields.pop(name, None)
    for name, value in fields.items():
        if _is_canonical(value) is None:
            fields[name] = msgspec.Raw(_canonical(name, bytes(value), known))
    hashed = _hash(_encode([part.conversation, fields]))
    hashed.update(messages.digest())
    return hashed.hexdigest()


def _hash_beginning(beginning: bytes, known: KnownConversation, server: str) -> "hashlib.blake2b":
    """Return the hash of a bracket and these messages, to which others can be added."""
    what = ("hash of the beginning", server)
    size, hashed = known.find(what, beginning) or (0, _hash(b"["))
    hashed = hashed.copy()
    if size < len(beginning):
        hashed.update(beginning[size:])
        known.keep(what, beginning, (len(beginning), hashed.copy()))
    return hashed


def _find_list(body: bytes, name: str) -> int:
    """Return where the messages begin in a body that the gateway has written; -1 if a field before them has a list of
    the same name. Strings before them cannot look like it: their quotes would be escaped."""
    start = b'"%b":[' % name.encode()
    place = body.find(start)
    try:
        _fields(body[:place] + b'"":0}')
    except msgspec.DecodeError:
        return -1  # not a field of the body itself
    return place + len(start)


_is_canonical = re.compile(rb'"[ !#-\[\]-~]*"|0|-?[1-9][0-9]{0,15}|true|false|null').fullmatch
"""Whether a value is hashed as it was sent: `_canonical` would return the same bytes."""


def _canonical(name: str, raw: bytes, known: KnownConversation | None) -> bytes:
    def write() -> bytes:
        value = msgspec.json.decode(raw)
        return _encode(_mark_order(value) if b'"properties"' in raw else value)

    return make_once(("canonical", name), write, raw, known if len(raw) >= MIN_REMEMBERED_BYTES else None)


MIN_REMEMBERED_BYTES = 2048
"""Of the fields whose canonical form is remembered."""


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
