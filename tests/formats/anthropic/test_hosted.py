from typing import Any

from app.chat.hosted_tools import HostedResult, SearchEntry, write_entries
from app.formats.anthropic.hosted import read_hosted_result, write_hosted_result

from tests.each_case import each_case

ENTRIES = (SearchEntry("https://a.example/1", "One", "First.", "2026-11-01"), SearchEntry("https://b.example/2", "Two"))


def read_again(result: HostedResult, text: str) -> str | None:
    block = write_hosted_result("call_1", result, text)
    assert block["tool_use_id"] == "srvtoolu_call_1"
    return read_hosted_result(block["type"], block["content"], block.get("encrypted_content"))


def test_a_block_says_again_what_the_model_has_read() -> None:
    assert read_again(HostedResult("web_search", ENTRIES), write_entries(ENTRIES)) == write_entries(ENTRIES)
    assert read_again(HostedResult("web_search"), "No results.") == "No results."
    assert read_again(HostedResult("web_search"), "There is nothing.") == "There is nothing."
    assert read_again(HostedResult("web_fetch", url="https://a.example/1"), "The page.") == "The page."
    assert read_again(HostedResult("web_fetch", error="url_not_allowed"), "Error: no") == "Error: no"


def test_a_block_shows_titles_and_ages_and_hides_the_words() -> None:
    first, second = write_hosted_result("c", HostedResult("web_search", ENTRIES), "")["content"]
    assert (first["title"], first["page_age"], second["page_age"]) == ("One", "2026-11-01", None)
    assert first["encrypted_content"].startswith("parley1.")


@each_case(
    ("kind", "content", "told"),
    [
        (
            "web_search_tool_result",
            [{"url": "u", "title": None, "page_age": None, "encrypted_content": "Eq"}],
            "[1] u\nu",
        ),
        ("web_search_tool_result", [{"title": "no URL"}], None),
        ("web_search_tool_result", "text", None),
        ("web_fetch_tool_result", {"content": {"source": {"type": "base64", "data": "JVBE"}}}, None),
        ("web_fetch_tool_result", None, None),
        ("mcp_tool_result", [], None),
        (
            "web_search_tool_result",
            {"type": "web_search_tool_result_error", "error_code": "unavailable"},
            "Error: unavailable",
        ),
    ],
)
def test_a_block_of_a_vendor_is_read_as_far_as_it_can_be(kind: str, content: Any, told: str | None) -> None:
    assert read_hosted_result(kind, content) == told
