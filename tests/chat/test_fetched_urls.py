"""The URLs that the server of a body would fetch."""

from typing import Any

import pytest
from app.chat.fetched_urls import find_addresses, find_body_urls, find_fetched_urls
from app.chat.known_conversation import KnownConversation

from tests.each_case import each_case

URL = "http://10.0.0.1/a"


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ({"messages": [{"content": [{"type": "image", "source": {"type": "url", "url": URL}}]}]}, [
            "messages[0].content[0].source.url"
        ]),
        ({"source": {"content": [{"source": {"type": "future", "url": URL}}]}}, ["source.content[0].source.url"]),
        ({"mcp_servers": [{"type": "url", "url": URL}]}, ["mcp_servers[0].url"]),
        ({"tools": [{"type": "mcp", "server_url": URL}]}, ["tools[0].server_url"]),
        ({"input": [{"image_url": URL}, {"output": {"file_url": URL}}]}, [
            "input[0].image_url", "input[1].output.file_url"
        ]),
        ({"image_url": {"url": URL}, "video_url": [URL, {"url": URL}]}, [
            "image_url.url", "video_url[0]", "video_url[1].url"
        ]),
        ({"image_url": "file:///etc/passwd"}, ["image_url"]),
        ({"image_url": "/etc/passwd"}, ["image_url"]),
        ({"file_data": URL, "input_audio": {"data": URL}}, ["file_data", "input_audio.data"]),
        ({"file_data": "http:/10.0.0.1/a", "uri": "http:10.0.0.1", "href": "h\ttp:\n\\\\10.0.0.1"}, [
            "file_data", "href", "uri"
        ]),
    ],
)  # fmt: skip
def test_a_url_that_is_fetched_is_found_at_its_place(value: Any, paths: list[str]) -> None:
    assert [path for path, _ in find_fetched_urls(value)] == paths


@pytest.mark.parametrize(
    "value",
    [
        {
            "image_url": "DATA:image/png;base64,AA==",
            "file_data": "AAAA",
            "input_audio": {"data": "AAAA", "format": "wav"},
        },
        {"image_url": None, "file_url": "", "server_url": 5, "mcp_servers": ["x"], "source": URL},
        {"type": "web_search_call", "action": {"sources": [{"type": "url", "url": URL}]}},
        {"type": "web_search_result", "url": URL, "annotations": [{"type": "url_citation", "url": URL}]},
        {"type": "tool_use", "input": {"image_url": URL, "source": {"url": URL}}},
        {"type": "custom_tool_call", "input": {"image_url": URL}},
        {
            "input_schema": {"default": {"image_url": URL}},
            "parameters": {"image_url": URL},
            "metadata": {"file_url": URL},
        },
    ],
)
def test_no_other_text_is_a_url_that_is_fetched(value: Any) -> None:
    assert find_fetched_urls(value) == []


def test_deep_nesting_is_no_problem() -> None:
    value: Any = {"image_url": URL}
    for _ in range(20_000):
        value = [value]
    assert [url for _, url in find_fetched_urls(value)] == [URL]


def test_what_is_known_of_a_conversation_changes_no_url_of_its_body() -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://a.test/i.png"}}
    server = {"type": "mcp", "server_url": "https://a.test/mcp"}
    entries: list[Any] = [{"role": "user", "content": [image]}, *[{"role": "user", "content": "u"}] * 20]
    for name in ("messages", "input"):
        known = KnownConversation()
        for tools in ([server], [server], [], [{**server, "server_url": "https://b.test/mcp"}], "odd", None):
            for length in (21, 21, 15):
                body = {
                    "model": "m",
                    name: entries[:length],
                    "tools": tools,
                    "mcp_servers": [{"url": "https://c.test"}],
                }
                assert find_body_urls(body, known) == find_body_urls(body, None)
                assert len(find_body_urls(body, known)) == 2 + (tools not in ([], "odd", None))


@each_case(
    ("fields", "paths"),
    [
        ({"webhook_url": URL, "apiEndpoint": URL, "links": {"a": [URL]}}, ["apiEndpoint", "links.a[0]", "webhook_url"]),
        ({"x": [{"href": URL}], "uri": "none", "endpoint": "chat", "urls": 5}, ["x[0].href"]),
        ({"metadata": {"url": URL}, "x": URL, "curl": URL, "parameters": {"url": URL}}, []),
    ],
)
def test_an_address_is_known_by_the_name_of_its_field(fields: dict[str, Any], paths: list[str]) -> None:
    assert [path for path, _ in find_addresses(fields)] == paths


def test_an_address_in_an_unknown_block_counts_if_it_is_a_url() -> None:
    block = {"type": "x", "uri": URL, "endpoint": "chat", "urls": [URL, 5, "data:a://b"], "href": None}
    assert [path for path, _ in find_fetched_urls([block])] == ["[0].uri", "[0].urls[0]"]


@each_case("kind", ["x_use", "x_tool_call"])
def test_a_body_is_no_call_whatever_its_type(kind: str) -> None:
    body = {"type": kind, "input": [{"role": "user", "content": [{"type": "input_image", "image_url": URL}]}]}
    for known in (None, KnownConversation()):
        assert find_body_urls(body, known) == (("input[0].content[0].image_url", URL),)


@each_case(
    "url", ["http:\\\\10.0.0.1\\x", "http:/10.0.0.1", "HTTP:10.0.0.1", " ht\ntps:10.0.0.1", "//10.0.0.1", "wss:a.b"]
)
def test_an_address_is_one_in_each_form_that_a_library_reads(url: str) -> None:
    assert find_addresses({"webhook_url": url}) == [("webhook_url", url)]
    assert find_addresses({"link": "a text: no address"}) == []
