"""Reads the searches and fetches of the web that a request offers in the words of its API.

Whether the gateway runs them is known later. So what they change of a request is kept beside it: `HostedAsks`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.chat.hosted_tools import HostedAsk, HostedAsks, HostedKind
from app.chat.web_domains import find_domain_mistake
from app.errors import Violation
from app.validation.violations import describe_given, json_path

Json = Mapping[str, Any]
SEARCH_NAME = "web_search"
FETCH_NAME = "web_fetch"
OPEN_NAME = "open_page"
"""The names for the model where a request says none."""
_KINDS: Mapping[str, HostedKind] = {"web_search_": "web_search", "web_fetch_": "web_fetch"}
"""By the beginnings of the types of Anthropic's tools."""
GEMINI_KINDS: Mapping[str, HostedKind] = {
    "googleSearch": "web_search",
    "googleSearchRetrieval": "web_search",
    "enterpriseWebSearch": "web_search",
    "urlContext": "web_fetch",
}
"""The tools of Google's servers that search or read pages."""
_SIZES = {"low": 3, "medium": 6, "high": 10}
"""How many pages a search brings, by `search_context_size`."""
_CITATIONS = "the reply will have no citations"


def find_kind(tool: Any) -> HostedKind | None:
    """Return what a tool of Anthropic's Messages asks for; None for any other tool."""
    kind = tool.get("type") if isinstance(tool, dict) and tool.get("input_schema") is None else None
    if not isinstance(kind, str):
        return None
    return next((found for head, found in _KINDS.items() if kind.startswith(head)), None)


def read_anthropic_tools(items: Sequence[tuple[str, Any]], own_names: Sequence[str]) -> HostedAsks:
    """Read the searches and fetches among tools, each with its path. `own_names` are the caller's functions."""
    asks: list[HostedAsk] = []
    kinds: dict[HostedKind, None] = {}
    violations: list[Violation] = []
    losses: list[str] = []
    for path, item in items:
        kind = find_kind(item)
        if kind is None:
            continue
        kinds[kind] = None
        name = item.get("name", kind)
        if not isinstance(name, str) or not name.strip():
            violations.append(Violation(f"{path}.name", "must be a string that is not blank"))
            continue
        if name in (*own_names, *(ask.name for ask in asks)):
            violations.append(Violation(f"{path}.name", f"must be unique: there are two tools named {name!r}"))
        allowed, blocked, mistakes = read_domains(item, path)
        violations += mistakes
        uses, tokens = item.get("max_uses"), item.get("max_content_tokens")
        for key, value in (("max_uses", uses), ("max_content_tokens", tokens)):
            if value is not None and (type(value) is not int or value < 1):
                violations.append(Violation(f"{path}.{key}", f"must be an integer of 1 or more{describe_given(value)}"))
        if violations:
            continue
        if isinstance(citations := item.get("citations"), dict) and citations.get("enabled"):
            losses.append(f"{path}.citations: {_CITATIONS}")
        location = item.get("user_location")
        asks.append(HostedAsk(kind, name, path, True, uses, allowed, blocked, location, tokens))
    return HostedAsks(tuple(kinds), tuple(asks), violations=tuple(violations), losses=tuple(losses))


def read_responses_tool(tool: Json, path: str) -> tuple[list[HostedAsk], list[Violation]]:
    """Read a tool of the Responses API that searches: with a fetch that opens the pages which it has found."""
    filters = tool.get("filters")
    if not isinstance(filters, dict | None):
        return [], [Violation(f"{path}.filters", f"must be an object{describe_given(filters)}")]
    allowed, blocked, violations = read_domains(filters or {}, f"{path}.filters")
    if violations:
        return [], violations
    access = tool.get("external_web_access")
    search = HostedAsk(
        *("web_search", SEARCH_NAME, path),
        allowed_domains=allowed,
        blocked_domains=blocked,
        location=tool.get("user_location"),
        max_results=read_context_size(tool),
        offline=access is False or access == "index_only",
    )
    opening = HostedAsk("web_fetch", OPEN_NAME, path, False, None, allowed, blocked, offline=search.offline)
    return [search, opening], []


def read_search_options(options: Any, path: str) -> HostedAsks:
    """Read `web_search_options` of chat completions. Servers that search themselves know more of it."""
    given = options if isinstance(options, dict) else {}
    location = given.get("user_location")
    if isinstance(location, dict) and isinstance(location.get("approximate"), dict):
        location = location["approximate"]
    ask = HostedAsk("web_search", SEARCH_NAME, path, location=location, max_results=read_context_size(given))
    return HostedAsks(("web_search",), (ask,))


def read_gemini_tool(field: str, tool: Any, path: str) -> HostedAsk:
    """Read a tool of Google's servers that searches or reads pages."""
    kind = GEMINI_KINDS[field]
    excluded = tool.get("excludeDomains") if isinstance(tool, dict) else None
    usable = isinstance(excluded, list) and not any(_check_domains(excluded, path))
    return HostedAsk(kind, kind, path, True, blocked_domains=tuple(excluded) if usable and excluded else ())


def read_context_size(tool: Json) -> int:
    size = tool.get("search_context_size")
    return _SIZES.get(size, _SIZES["medium"]) if isinstance(size, str) else _SIZES["medium"]


def read_domains(item: Json, path: str) -> tuple[tuple[str, ...], tuple[str, ...], list[Violation]]:
    """Return (allowed, blocked, violations)."""
    lists = {key: item.get(key) for key in ("allowed_domains", "blocked_domains")}
    violations = [mistake for key, value in lists.items() for mistake in _check_domains(value, f"{path}.{key}")]
    if all(lists.values()):
        violations.append(Violation(f"{path}.blocked_domains", "cannot stand beside allowed_domains: send one list"))
    if violations:
        return (), (), violations
    return tuple(lists["allowed_domains"] or ()), tuple(lists["blocked_domains"] or ()), []


def _check_domains(value: Any, path: str) -> Iterator[Violation]:
    if value is None:
        return
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        yield Violation(path, f"must be a list of domains{describe_given(value)}")
        return
    for place, entry in enumerate(value):
        mistake = find_domain_mistake(entry)
        if mistake is not None:
            yield Violation(json_path([place], path), mistake)
