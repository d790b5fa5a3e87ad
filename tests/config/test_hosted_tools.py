from typing import Any

from app.config.mistakes import find_conflicts
from app.config.settings import Settings
from app.config.tool_servers import list_hosted_tools

from tests.each_case import each_case

SEARCH = {"mcp": "web", "tool": "search"}


def load(server: dict[str, Any] | None = None, **hosted: Any) -> Settings:
    rows = {"web": {"command": "x", **server}} if server is not None else {}
    return Settings.model_validate({"mcp_servers": rows, "hosted_tools": hosted})


@each_case(
    ("server", "place"),
    [
        (None, "mcp"),
        ({"enabled_tools": ["fetch"]}, "tool"),
        ({"disabled_tools": ["search"]}, "tool"),
        ({"approval": "always"}, "tool"),
        ({"approval": ["search"]}, "tool"),
        ({"approval": ["fetch"], "enabled_tools": ["search"], "disabled_tools": ["fetch"]}, ""),
        ({"approval": "never"}, ""),
        ({"enabled": False}, ""),
    ],
)
def test_a_search_needs_a_tool_that_its_server_offers_without_approval(
    server: dict[str, Any] | None, place: str
) -> None:
    found = [one.partition(":")[0] for one in find_conflicts(load(server, web_search=SEARCH, web_fetch=None))]
    assert found == ([f"hosted_tools.web_search.{place}"] if place else [])


def test_the_settings_become_tools_with_the_names_of_their_arguments() -> None:
    search = {**SEARCH, "query": "q", "count": "n", "location": "where", "price": {"per_1000": 5}, "offline": "search"}
    fetch = {"mcp": "web", "tool": "fetch", "known_urls": False, "models": ["a*"]}
    first, second = list_hosted_tools(load({}, web_search=search, web_fetch=fetch))
    assert (first.kind, first.text_argument, first.count_argument, first.location_argument) == (
        *("web_search", "q", "n", "where"),
    )
    assert (first.per_call, first.searches_offline, first.first_call) == (0.005, True, True)
    assert (second.kind, second.text_argument, second.known_urls) == ("web_fetch", "url", False)
    assert second.models.match("abc") and not second.models.match("b")
    assert list_hosted_tools(load({})) == []
