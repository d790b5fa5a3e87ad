"""The item that each message of a reply becomes."""

from typing import Any

from app.chat.accumulator import ReplyMessage
from app.chat.events import MediaOutput
from app.formats.base import ResponsesOptions
from app.formats.responses.items import choose_prefix, find_native_item, make_item, make_part
from app.formats.seal import Seal, read_seal

from tests.each_case import each_case

Json = dict[str, Any]
PLAIN = ResponsesOptions()


def message(kind: Any, **fields: Any) -> ReplyMessage:
    made = ReplyMessage(0, kind, fields.pop("id", ""), fields.pop("name", ""), fields.pop("refusal", False))
    made.extra.update(fields.pop("extra", {}))
    for name, value in fields.items():
        setattr(made, name, value)
    return made


CALL = message("function_call", id="c", name="f")


@each_case(
    ("given", "text", "options", "item"),
    [
        (CALL, "{}", PLAIN, {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}),
        (
            CALL,
            '{"input": "a"}',
            ResponsesOptions(custom=("f",)),
            {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "a"},
        ),
        (
            CALL,
            "{}",
            ResponsesOptions(namespaces={"f": ("files", "read")}),
            {"type": "function_call", "call_id": "c", "name": "read", "namespace": "files", "arguments": "{}"},
        ),
        (
            message("function_call", id="c", name="tool_search"),
            '{"query": "x"}',
            ResponsesOptions(client_search=True),
            {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "x"}},
        ),
        (
            message("content"),
            "Hi",
            PLAIN,
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}],
            },
        ),
        (
            message("content", extra={"extra_content": {"openai": {"phase": "final", "x": 1}, "g": 2}}, refusal=True),
            "No",
            PLAIN,
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "refusal", "refusal": "No"}],
                "phase": "final",
                "extra_content": {"g": 2, "openai": {"x": 1}},
            },
        ),
        (
            message("content", extra={"extra_content": "opaque"}),
            "",
            PLAIN,
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "", "annotations": [], "logprobs": []}],
                "extra_content": "opaque",
            },
        ),
        (
            message("content", extra={"extra_content": {"openai": None}}),
            "",
            PLAIN,
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "", "annotations": [], "logprobs": []}],
                "extra_content": {"openai": None},
            },
        ),
        (
            message("media", media=MediaOutput("audio", "data:audio/wav;base64,UklGRg==", fields={"id": "a"})),
            "",
            PLAIN,
            {"type": "message", "role": "assistant", "content": [], "audio": {"id": "a", "data": "UklGRg=="}},
        ),
        (
            message("reasoning_content"),
            "Hm.",
            PLAIN,
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        ),
        (
            message("reasoning_content"),
            "Hm.",
            ResponsesOptions(summary=True),
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        ),
    ],
)
def test_each_message_is_an_item(given: ReplyMessage, text: str, options: ResponsesOptions, item: Json) -> None:
    assert make_item("x_1", given, "completed", text, options) == {"id": "x_1", "status": "completed", **item}


def test_a_result_has_no_item_of_its_own_because_that_of_its_call_has_it() -> None:
    assert make_item("x_1", message("function_result"), "completed", "text", PLAIN) == {"id": "x_1"}


def test_reasoning_has_a_seal_where_the_client_asks_for_it_or_the_server_has_details() -> None:
    for details, options in ([], ResponsesOptions(sealed=True)), ([{"type": "t"}], PLAIN):
        given = message("reasoning_content", extra={"reasoning_details": details})
        item = make_item("rs_1", given, "completed", "Hm.", options)
        assert read_seal(item["encrypted_content"]) == Seal("Hm.", details)


@each_case(
    ("given", "options", "prefix"),
    [
        (CALL, PLAIN, "fc"),
        (CALL, ResponsesOptions(custom=("f",)), "ctc"),
        (message("function_call", name="tool_search"), ResponsesOptions(client_search=True), "tsc"),
        (message("content"), PLAIN, "msg"),
        (message("reasoning_content"), PLAIN, "rs"),
        (message("media", media=MediaOutput("image", "https://h/a.png")), PLAIN, "ig"),
        (message("media", media=MediaOutput("audio", "https://h/a.wav")), PLAIN, "msg"),
    ],
)
def test_the_id_of_an_item_begins_with_its_kind(given: ReplyMessage, options: ResponsesOptions, prefix: str) -> None:
    assert choose_prefix(given, options) == prefix


def test_a_text_has_its_citations_once_there_is_text() -> None:
    cited = message("content", extra={"annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}]})
    assert make_part(cited, "a")["annotations"] == [{"type": "url_citation", "url": "u"}]
    assert make_part(cited, "")["annotations"] == []


@each_case(
    ("detail", "found"),
    [
        ({"type": "provider.item", "item": {"type": "web_search_call"}}, True),
        ({"type": "provider.item", "item": {"type": "image_generation_call"}}, False),
        ({"type": "reasoning.text", "item": {"type": "web_search_call"}}, False),
        ({"type": "provider.item", "item": "web_search_call"}, False),
        ({"type": "provider.item", "item": {"type": ["web_search_call"]}}, False),
        ("provider.item", False),
    ],
)
def test_an_item_that_clients_know_is_written_as_it_is(detail: Any, found: bool) -> None:
    assert find_native_item(detail) == (detail["item"] if found else None)
