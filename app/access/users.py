"""End users behind one key: where a request names its user, and what each of them may use."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from app.limits.values import NO_LIMITS, Limits

Place: TypeAlias = Literal["header", "claim", "user", "metadata"]
MAX_NAME = 128
"""Longer names are known by so many characters in limits, errors, usage and logs."""
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line ends, characters that change the direction of text, and half surrogate pairs."""
_CLAUDE_ID = re.compile(r"user_(?P<device>.+?)_account_(?P<account>.*?)_session_.*")
"""`metadata.user_id` of Claude Code before version 2.1: a device, an account that may be empty, and a session."""


class UserSource(Struct, frozen=True):
    """Where a request names its user."""

    place: Place
    """`user`: the field of the body of this name, or `safety_identifier` if that is missing."""
    name: str = ""
    """Of the header in small letters, the claim, or the entry of `metadata`."""

    @property
    def is_in_body(self) -> bool:
        return self.place in ("user", "metadata")

    def __str__(self) -> str:
        match self.place:
            case "user":
                return "user"
            case "metadata":
                return f"metadata.{self.name}"
            case "header" | "claim":
                return f"the {self.place} {self.name}"


class UserRules(Struct, frozen=True):
    """What a key says of its users."""

    source: UserSource
    limits: Limits = NO_LIMITS
    """Of each user."""
    required: bool = False
    """A request for a reply must name a user."""
    hash_name: Callable[[str, str], str] | None = None
    """Returns the hash by which a user of a caller is known instead of its name; it may raise StoreDown."""
    share_replies: bool = False
    """Users get each other's stored replies, because the key's `cache_scope` is set."""


def parse_user_source(text: str) -> UserSource:
    """Parse `header:NAME`, `claim:NAME`, `user` or `metadata.NAME`. Raises ValueError."""
    if text == "user":
        return UserSource("user")
    kind, _, name = text.partition(":")
    if kind == "header" and re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
        return UserSource("header", name.lower())
    if kind == "claim" and name:
        return UserSource("claim", name)
    if text.startswith("metadata.") and len(text) > len("metadata."):
        return UserSource("metadata", text.removeprefix("metadata."))
    raise ValueError("must be header:NAME, user, metadata.user_id or metadata.NAME, or for JWTs claim:NAME")


def find_header_user(headers: Mapping[bytes, bytes], source: UserSource) -> str:
    """Return the user that the headers of a request name; empty without one."""
    value = headers.get(source.name.encode(), b"")
    try:
        return clean_user(value.decode())
    except UnicodeDecodeError:
        return clean_user(value.decode("latin-1"))


def find_body_user(user: Any, metadata: Any, source: UserSource) -> str:
    """Return the user that a body names by its field `user` or by its metadata; empty without one."""
    if source.place == "user":
        return clean_user(user)
    value = metadata.get(source.name) if isinstance(metadata, Mapping) else None
    return clean_user(find_person(value) if source.name == "user_id" else value)


def find_person(user_id: Any) -> Any:
    """Return the account, else the device, of which Claude Code makes `metadata.user_id`: with the session in it, each
    session would be a user. Return another id as it is."""
    if not isinstance(user_id, str):
        return user_id
    if user_id.startswith("{"):
        try:
            fields = msgspec.json.decode(user_id, type=dict[str, Any])
        except ValueError:
            return ""  # of what may have a session in it, nothing is a person
        return fields.get("account_uuid") or fields.get("device_id")
    match = _CLAUDE_ID.fullmatch(user_id)
    return user_id if match is None else match["account"] or match["device"]


def clean_user(name: Any) -> str:
    """Return the name of a user, as long as it is; empty if it cannot be one."""
    if not isinstance(name, str) or not name.strip() or _UNSAFE.search(name):
        return ""
    return name
