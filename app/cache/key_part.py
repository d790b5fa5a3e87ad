"""What a deployment contributes to the cache key."""

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
