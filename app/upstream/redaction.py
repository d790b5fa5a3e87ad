"""Redact error messages: configured keys, credentials, file paths and internal addresses.

A server may quote the key it was sent, and a key of no known shape can be found only by its value. The input is error
messages, which `faults` has cut to a few thousand characters.
"""

import base64
import binascii
import ipaddress
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

import msgspec

from app.chat.events import Fault
from app.upstream.faults import SECRET_SHAPES

SECRET = "[redacted]"
PATH = "[path]"
ADDRESS = "[address]"

MIN_SECRET = 4
"""Shorter values are not treated as secrets: they occur in any text."""
MIN_ANYWHERE = 8
"""Shorter secrets (`none`, `EMPTY`) are replaced only as whole words."""
MIN_PART = 6
"""A secret that the end of a message cuts off is replaced if at least this many of its characters are left."""

_BASIC = re.compile(r"(\bbasic\s+)([A-Za-z0-9+/]{6,}={0,2})", re.IGNORECASE)
_CREDENTIALS = re.compile(r"(?<=://)[^\s/@'\"<>]{1,512}@")
_QUERY = re.compile(
    r"(?<=[?&;])((?:api[-_]?key|key|access[-_]?token|token|auth|password|secret|sig|signature|code)=)[^\s&;'\"<>]+",
    re.IGNORECASE,
)
_REST_OF_URL = r"(?:/[^\s'\"<>)\],;]*)?"
_PORT = r"(?::\d{1,5})?"
_NUMBERS = re.compile(rf"(?<![\w.])(?:https?://)?(\d{{1,3}}(?:\.\d{{1,3}}){{3}})(?!\.?\d){_PORT}{_REST_OF_URL}")
_BRACKETS = re.compile(rf"(?:https?://)?\[([0-9a-fA-F:.]{{2,45}})(?:%[\w.]+)?\]{_PORT}{_REST_OF_URL}")
_LOCAL = re.compile(
    r"(?<![\w.-])(?:https?://)?(?:localhost|[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}\.(?:local|localdomain|internal|lan|intranet))"
    rf"(?![\w-]){_PORT}{_REST_OF_URL}",
    re.IGNORECASE,
)
_WORD = r"[\w.@+~%=-]"
_UNIX_PATH = re.compile(rf"(?<![\w./:<@%~-])(?:file://|~)?/({_WORD}{{1,255}})(?:/{_WORD}{{1,255}}){{1,64}}/?")
_FILE = re.compile(rf"(?<=File \")[^\"\n]{{1,1024}}|(?<!\w)file://[^\s'\"<>]+|(?<![\w/])~/{_WORD}[^\s'\"<>:,;)]*")
_WINDOWS_PATH = re.compile(r"(?<!\w)(?:[A-Za-z]:\\|\\\\[\w.$-]+\\)[^\s'\"<>|*?:;,)]*")
_OF_AN_API = re.compile(r"v\d+\w*|api|openai|chat|messages|tools|functions|response_format|tool_choice|body|input|\d+")
"""The first segments of an API's paths and of JSON pointers into a request; these are not file paths."""


class Redactor:
    """Redacts the keys, header values and addresses of every configured upstream, and what looks like such."""

    def __init__(self, secrets: Iterable[str] = (), base_urls: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets for value in _values(secret) for form in _forms(value)} - {SECRET}
        self._forms = sorted(forms, key=len, reverse=True)
        self._addresses = _addresses([*base_urls])

    @property
    def forms(self) -> list[str]:
        """The secrets in each form that a text may have them, those of MIN_ANYWHERE characters and more."""
        return [form for form in self._forms if len(form) >= MIN_ANYWHERE]

    def redact_text(self, text: str) -> str:
        """Replace secrets, file paths and internal addresses."""
        text = self.remove_secrets(text)
        text = _BASIC.sub(_hide_if_basic_auth, _CREDENTIALS.sub(f"{SECRET}@", text))
        text = _QUERY.sub(rf"\1{SECRET}", text)
        lower = text.lower()
        for host, pattern in self._addresses.items():
            if host in lower:
                text = pattern.sub(ADDRESS, text)
        text = _LOCAL.sub(ADDRESS, text)
        text = _BRACKETS.sub(_hide_if_private_address, _NUMBERS.sub(_hide_if_private_address, text))
        text = _WINDOWS_PATH.sub(PATH, _FILE.sub(PATH, text))
        return _UNIX_PATH.sub(_hide_if_file_path, text)

    def redact_fault(self, fault: Fault) -> Fault:
        return msgspec.structs.replace(
            fault, message=self.redact_text(fault.message), detail=self._redact_value(fault.detail)
        )

    def _redact_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, dict):
            return {key: self._redact_value(item) for key, item in value.items()}
        return [self._redact_value(item) for item in value] if isinstance(value, list) else value

    def remove_secrets(self, text: str) -> str:
        """Replace only the values that the configuration names."""
        for form in self._forms:
            if form in text:
                text = _replace_secret(form, text)
        return self._remove_cut_secret(text) if text.endswith("…") else text

    def _remove_cut_secret(self, text: str) -> str:
        """Remove the beginning of a secret from the end of a text that was cut."""
        body = text.removesuffix("…")
        for form in self._forms:
            tail = body[-len(form) :]
            at = tail.find(form[:MIN_PART])
            while at >= 0:
                if form.startswith(tail[at:]):
                    return f"{body[: at - len(tail)]}{SECRET}…"
                at = tail.find(form[:MIN_PART], at + 1)
        return text


def _replace_secret(form: str, text: str) -> str:
    if len(form) >= MIN_ANYWHERE:
        return text.replace(form, SECRET)
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(form)}(?![A-Za-z0-9])", SECRET, text)


def _values(secret: str) -> Iterator[str]:
    """Yield the secret and its secret parts: the token of `Bearer …`, the user and password of `Basic …`."""
    secret = secret.strip()
    yield secret
    scheme, _, rest = secret.partition(" ")
    if not rest:
        return
    yield rest.strip()
    if scheme.lower() == "basic":
        try:
            pair = base64.b64decode(rest.strip(), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return
        yield pair
        yield pair.partition(":")[2]


def _forms(value: str) -> Iterator[str]:
    """Yield the ways a server may quote a value, and what `faults` leaves of each when part of it looks like a key."""
    for form in _quoted_forms(value):
        yield form
        for prefix in ("", "Bearer ", "bearer: "):
            rest = SECRET_SHAPES.sub(SECRET, prefix + form)
            if rest not in (prefix + form, SECRET):
                yield rest


def _quoted_forms(value: str) -> Iterator[str]:
    if len(value) < MIN_SECRET:
        return
    yield value
    yield quote(value)
    yield quote(value, safe="")
    yield quote_plus(value)
    yield json.dumps(value)[1:-1]
    yield json.dumps(value)[1:-1].replace("/", "\\/")
    yield repr(value)[1:-1]
    yield value.encode().hex()
    yield from _base64_forms(value.encode())


def _base64_forms(value: bytes) -> Iterator[str]:
    """Yield the part of a value's base64 that does not depend on the bytes around it (`user:key` of basic auth)."""
    for offset in range(3):
        plain = b"\0" * offset + value
        inner = slice(-(-offset * 8 // 6), len(plain) * 8 // 6)
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            coded = encode(plain).decode()[inner]
            if len(coded) >= MIN_ANYWHERE:
                yield coded


def _addresses(base_urls: Iterable[str]) -> dict[str, re.Pattern[str]]:
    """Return a pattern for each host: its URLs, the host with a port, and the host alone if it is not a plain word."""
    patterns: dict[str, re.Pattern[str]] = {}
    for base_url in base_urls:
        host = urlsplit(base_url).hostname
        if not host:
            continue
        plain = re.escape(f"[{host}]" if ":" in host else host)
        forms = [
            rf"https?://{plain}(?![\w.-])(?::\d{{1,5}})?{_REST_OF_URL}",
            rf"(?<![\w.-]){plain}:\d{{1,5}}(?!\d){_REST_OF_URL}",
        ]
        if "." in host or ":" in host:
            forms.append(rf"(?<![\w.-]){plain}(?![\w-])")
        patterns[host] = re.compile("|".join(forms), re.IGNORECASE)
    return patterns


def _hide_if_basic_auth(match: re.Match[str]) -> str:
    """Hide user and password; keep the words "basic authentication"."""
    try:
        pair = b":" in base64.b64decode(match.group(2), validate=True)
    except binascii.Error:
        return match.group()
    return match.group(1) + SECRET if pair else match.group()


def _hide_if_private_address(match: re.Match[str]) -> str:
    try:
        address = ipaddress.ip_address(match.group(1))
    except ValueError:
        return match.group()
    return match.group() if address.is_global else ADDRESS


def _hide_if_file_path(match: re.Match[str]) -> str:
    return match.group() if _OF_AN_API.fullmatch(match.group(1)) else PATH


EMPTY_REDACTOR = Redactor()
