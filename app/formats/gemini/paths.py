"""Which requests are in the language of Google's Gemini API: by their paths, and what else they have."""

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl

KEY_HEADER = b"x-goog-api-key"
_VERSIONS = ("/v1beta/", "/v1alpha/", "/v1beta1/", "/v1/projects/", "/v1/publishers/", "/upload/")
_OWN_PATHS = ("/v1beta", "/v1alpha", "/v1beta1")
_MODELS = "/models/"
"""Also below a base URL that is wrong: its client must be able to read the error."""
_CLIENT_HEADER = b"x-goog-api-client"
_SKIPS_ERRORS = re.compile(rb"google-genai-sdk/1\.[^ ]* gl-node/")
"""@google/genai before version 2: gemini-cli 0.61.0, which has 1.30, ended well with the half of a text."""


def is_gemini_request(method: str, path: str, query: bytes, headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request is answered in this language. `/v1/models` is also the list of OpenAI and Anthropic: there the
    headers of Google's clients, or a key in the query, make the difference."""
    if path in _OWN_PATHS or path.startswith(_VERSIONS):
        return True
    if method == "POST":
        model, _, name = path.rpartition(":")
        return _MODELS in model and not model.endswith(_MODELS) and name.isalpha() and name.isascii()
    if _MODELS not in f"{path}/":
        return False
    return KEY_HEADER in headers or _CLIENT_HEADER in headers or find_key(query) is not None


def skips_errors(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the client skips an error in a stream of events."""
    return _SKIPS_ERRORS.match(headers.get(_CLIENT_HEADER, b"")) is not None


def find_key(query: bytes) -> str | None:
    """Return the API key of a query."""
    if b"key" not in query:
        return None
    return next((value for name, value in _parse_query(query) if name == "key" and value), None)


def wants_events(query: bytes) -> bool:
    """Whether a stream is to be server-sent events; else it is a JSON array."""
    return any(name in ("alt", "$alt") and value.lower() == "sse" for name, value in _parse_query(query))


def read_page(query: bytes) -> tuple[str | None, str | None]:
    """Return `pageSize` and `pageToken` of a list."""
    given = {name: value for name, value in _parse_query(query) if value}
    return given.get("pageSize") or given.get("page_size"), given.get("pageToken") or given.get("page_token")


def _parse_query(query: bytes) -> list[tuple[str, str]]:
    return parse_qsl(query.decode("latin-1"), keep_blank_values=True)
