"""Read the output of a command, or a file, that holds a credential. Pure.

It is one line, or a JSON object in the form of a known program: `ExecCredential` of kubectl (kubernetes.io, "Client
Authentication (v1)"), a token answer of OAuth (RFC 6749, section 5.1), `az account get-access-token`
(learn.microsoft.com), or an object with `token` and the time of its end.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

_TOKENS = ("access_token", "accessToken", "token")
_TIMES = ("expires_on", "expiresOn", "expirationTimestamp", "expiry", "expiration")
"""Names of the time of the end, a number of Unix seconds or a date. `az` has two: `expiresOn` is the local time."""
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?")


class Credential(Struct, frozen=True):
    value: str
    expires_at: float | None = None
    """Unix seconds; None if the output does not say it."""


def parse_credential(output: bytes, now: float) -> Credential:
    """Return what an output holds. `now` is the Unix time. Raises ValueError, whose text quotes nothing of it."""
    try:
        text = output.decode().strip()
    except UnicodeDecodeError:
        raise ValueError("the output is no UTF-8") from None
    if not text:
        raise ValueError("the output is empty")
    credential = _parse_object(text, now) if text.startswith("{") else Credential(text)
    if not _HEADER_VALUE.fullmatch(credential.value):
        raise ValueError("the output is not one line of printable ASCII, nor a JSON object with a token")
    if credential.expires_at is not None and credential.expires_at <= now:
        raise ValueError("the credential has expired already")
    return credential


def _parse_object(text: str, now: float) -> Credential:
    try:
        found = msgspec.json.decode(text, type=dict[str, Any])
    except (ValueError, RecursionError):
        raise ValueError("the output begins like JSON, and is none") from None
    status = found.get("status")
    if isinstance(status, Mapping):
        found = {**status}
    value = next((found[name] for name in _TOKENS if isinstance(found.get(name), str)), "")
    if not value:
        raise ValueError(f"the JSON object has no text in {', '.join(_TOKENS)} or status.token")
    return Credential(value, _find_end(found, now))


def _find_end(found: Mapping[str, Any], now: float) -> float | None:
    """Return when a token ends. Raises ValueError for a time that cannot be read: it could be taken for no end."""
    if found.get("expires_in") is not None:
        return now + _read_number(found["expires_in"], "expires_in")
    for name in _TIMES:
        if found.get(name) is not None:
            return _read_time(found[name], name)
    return None


def _read_number(value: Any, name: str) -> float:
    text = str(value)
    if isinstance(value, bool) or not isinstance(value, int | float | str) or not _NUMBER.fullmatch(text):
        raise ValueError(f"{name} of the credential is no number of seconds")
    return float(text)


def _read_time(value: Any, name: str) -> float:
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        try:
            return datetime.fromisoformat(value).timestamp()  # without a zone it is the local time
        except (ValueError, OverflowError, OSError):
            raise ValueError(f"{name} of the credential is neither a date nor a number of seconds") from None
    return _read_number(value, name)
