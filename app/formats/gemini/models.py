"""The list of models in Google's form (https://ai.google.dev/api/models)."""

import re
from collections.abc import Sequence
from typing import Any

from app.errors import InvalidInput, Violation
from app.formats.gemini.paths import read_page

Json = dict[str, Any]
_PREFIX = "models/"
"""Before each name."""
_METHODS = {
    "chat": ("generateContent", "countTokens"),
    "embeddings": ("embedContent", "batchEmbedContents"),
}
"""By what a model serves."""


def read_name(name: str) -> str:
    """Return the gateway's name of a model."""
    return name.removeprefix(_PREFIX)


def select_page(names: Sequence[str], query: bytes, size: int) -> tuple[Sequence[str], Json]:
    """Return (the names of the page that a query asks for, the fields of the answer beside its models). A page has
    `size` of them, if the query does not say it. Raises InvalidInput."""
    asked, token = read_page(query)
    start = _read_number("pageToken", token, 0)
    end = start + (_read_number("pageSize", asked, size) or size)
    return names[start:end], {"nextPageToken": str(end)} if end < len(names) else {}


def _read_number(name: str, text: str | None, default: int) -> int:
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise InvalidInput([Violation(name, f"must be a number, not {text[:40]!r}")])
    return int(text)


def write_model(
    name: str, display_name: str, most_input: int | None, most_output: int | None, endpoints: Sequence[str]
) -> Json:
    """Write one model. `most_input` and `most_output` are numbers of tokens."""
    return {
        "name": f"{_PREFIX}{name}",
        "version": "1",
        "displayName": display_name,
        **({"inputTokenLimit": most_input} if most_input is not None else {}),
        **({"outputTokenLimit": most_output} if most_output is not None else {}),
        "supportedGenerationMethods": [one for served, row in _METHODS.items() if served in endpoints for one in row],
    }
