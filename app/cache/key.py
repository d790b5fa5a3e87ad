"""The cache key: equal for two requests exactly when the reply to one also answers the other.

The key is a hash of the body that each deployment of the route would be sent, and of how its reply would be read. What
is not sent does not count, whatever format the conversation came in.

The value of each field is compared byte for byte as it is sent. So 1, 1.0 and true differ in what the gateway passes on
unread (`extra_body`, schemas), and the order of keys counts: models read it in the tools of their prompt, and write in
the order of a schema. The order of the fields themselves does not count. Streaming does not count: the reply is the
same.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from app.chat.known_conversation import KnownConversation


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


VERSION = 5
"""Increased whenever the form of the key changes."""
PREPROCESSING = 7
"""Increased whenever the processing changes what an identical request sends, or what an identical reply becomes."""

_UNHASHED_FIELDS = ("stream", "stream_options")
_NO_MESSAGES = msgspec.Raw(b"")
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder(order="sorted").encode
_hash = partial(hashlib.blake2b, digest_size=32)


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
    """Hash a body. The messages may be very large, so they are neither decoded nor copied. Of
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
