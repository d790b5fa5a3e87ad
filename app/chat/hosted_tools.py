"""Searches and fetches of the web that a client asks for in the words of its API, and that the gateway runs."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

HostedKind: TypeAlias = Literal["web_search", "web_fetch"]
HostedError: TypeAlias = Literal[
    "invalid_tool_input",
    "query_too_long",
    "too_many_requests",
    "request_too_large",
    "max_uses_exceeded",
    "url_not_in_prior_context",
    "url_not_allowed",
    "url_too_long",
    "url_not_accessible",
    "unsupported_content_type",
    "unavailable",
]
"""The codes of Anthropic's Messages."""
NO_RESULTS = "No results."


class SearchEntry(Struct, frozen=True):
    """One page that a search has found."""

    url: str
    title: str
    text: str = ""
    """What the model reads of it."""
    page_age: str | None = None


class HostedResult(Struct, frozen=True, omit_defaults=True):
    """What a search or a fetch brought, beside the text for the model."""

    kind: HostedKind
    entries: tuple[SearchEntry, ...] = ()
    url: str = ""
    """The page that was fetched."""
    retrieved_at: str = ""
    """When it was fetched, in ISO 8601."""
    error: HostedError | None = None


class HostedAsk(Struct, frozen=True):
    """A search or a fetch that a request offers to its model."""

    kind: HostedKind
    name: str
    """The name for the model."""
    path: str
    """The JSON path in the request, for errors."""
    required: bool = False
    """A caller who may not use it is refused; else it is left out with a warning."""
    max_uses: int | None = None
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    location: Any = None
    max_content_tokens: int | None = None
    max_results: int | None = None
    recency: int | None = None
    """The pages are to be at most so many days old."""
    offline: bool = False
    """The caller does not want live pages."""


class HostedAsks(Struct, frozen=True):
    """The searches and fetches of a request, and what changes if the gateway runs them.

    What the rest of the request says is right for a request without them.
    """

    kinds: tuple[HostedKind, ...]
    """If none of them is configured, the request is as it would be without `asks`."""
    asks: tuple[HostedAsk, ...]
    choice: str | dict[str, Any] | None = None
    """`tool_choice` of OpenAI's chat completions; None: that of the request."""
    violations: tuple[Any, ...] = ()
    """`app.errors.Violation`: what is wrong with the request if they are offered."""
    unserved: tuple[Any, ...] = ()
    """The same only if they are not. These are in `Source.violations`, too."""
    warnings: tuple[str, ...] = ()
    """What is said of the request only if they are not offered."""
    losses: tuple[str, ...] = ()
    """The same if they are."""


def write_entries(entries: Sequence[SearchEntry]) -> str:
    """Return what the model reads. A later turn writes the same of what the client sends back."""
    if not entries:
        return NO_RESULTS
    return "\n\n".join([write_entry(str(number), entry) for number, entry in enumerate(entries, 1)])


def write_entry(mark: str, entry: SearchEntry) -> str:
    return "\n".join([f"[{mark}] {entry.title}", entry.url, *([entry.text] if entry.text else [])])


def cut_entries(entries: Sequence[SearchEntry], most: int) -> tuple[SearchEntry, ...]:
    """Cut the texts, so that all of them together have about so many bytes at most. Each has the same share, and what
    a short one does not need is for the others."""
    sizes = sorted(len(entry.text.encode("utf-8", "replace")) for entry in entries)
    left, share = max(0, most), 0
    for place, size in enumerate(sizes):
        share = left // (len(sizes) - place)
        left -= min(size, share)
    longest = sizes[-1] if sizes else 0
    return tuple(entries) if longest <= share else tuple([_cut_entry(entry, share) for entry in entries])


def _cut_entry(entry: SearchEntry, most: int) -> SearchEntry:
    data = entry.text.encode("utf-8", "replace")
    return entry if len(data) <= most else replace(entry, text=data[:most].decode(errors="ignore").rstrip())
