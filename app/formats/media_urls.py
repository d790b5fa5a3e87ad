"""Checks the URLs of media in messages.

A URL is an http(s) URL or a data URI. The gateway never reads files of its own machine, and does not guess what a text
is that has neither form: the message of the error says how the same is written.
"""

import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator

from app.chat import datauri
from app.chat.media_types import HEAD_BYTES, detect_type

NEVER_READ = "files of the gateway's machine are never read"
LOCAL = f"must be an http(s) URL or a data URI: {NEVER_READ}"
_AS_DATA_URI = "send data:<media type>;base64,<its bytes in base64>"
_SHORTEST_BASE64 = 64
"""A shorter text may as well be a name."""
_WITHOUT_SCHEME = re.compile(r"(www\.|[\w-]+(\.[\w-]+)+(:\d+)?/)")


def is_remote(value: str) -> bool:
    # Only the start is lower-cased: a data URI may be megabytes long.
    return value[:8].lower().startswith(("http://", "https://", "data:"))


def check_url(value: str) -> str:
    """Validate a URL for pydantic. Raises ValueError if it is neither an http(s) URL nor a data URI."""
    if not is_remote(value):
        raise ValueError(describe_wrong_url(value))
    return value


def describe_wrong_url(value: str) -> str:
    """Return what is wrong with a URL that has no known scheme, and what to write instead."""
    if is_bare_base64(value):
        media_type = detect_base64(value) or "<media type>"
        return f"must be an http(s) URL or a data URI: this is base64, so write data:{media_type};base64, before it"
    return f"{LOCAL}. {describe_remedy(value, _AS_DATA_URI)}" if value else "must not be empty"


def describe_remedy(value: str, as_data: str) -> str:
    """Return what to write instead of the name of a file, or of a URL without its scheme. `as_data` says how the bytes
    of a file are sent."""
    return (
        "A URL begins with https://" if _WITHOUT_SCHEME.match(value) else f"Read the file in the client, and {as_data}"
    )


def is_bare_base64(value: str) -> bool:
    return len(value) >= _SHORTEST_BASE64 and datauri.may_be_base64(value)


def detect_base64(value: str) -> str | None:
    """Return the media type that the first bytes of base64 show."""
    try:
        return detect_type(datauri.decode_head(value, HEAD_BYTES))
    except ValueError:
        return None


Url: TypeAlias = Annotated[str, AfterValidator(check_url)]
