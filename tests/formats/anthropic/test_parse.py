"""What each block of Anthropic's messages means, and what is refused or left out with a warning."""

from typing import Any

import pytest
from app.chat.messages import UNREAD, Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.formats.anthropic import ANTHROPIC
from app.formats.anthropic.parse import FORMAT, parse_system
from app.formats.base import Options, ParsedMessages
from app.formats.seal import Seal, write_seal

Json = dict[str, Any]


DETAILS = [{"type": "reasoning.encrypted", "data": "AbC"}]


SIGNED = {"google": {"thought_signature": "c2ln"}}


PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}


def parse(*messages: Json) -> ParsedMessages:
    return ANTHROPIC.parse(list(messages), Options())


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def text(value: str) -> Json:
    return {"type": "text", "text": value}


def call(id_: str = "c", **arguments: Any) -> Json:
    return {"type": "tool_use", "id": id_, "name": "f", "input": arguments}


USER_PARTS: list[tuple[Json, list[Any]]] = [
    (text(""), []),
    (
        {"type": "image", "source": {"type": "url", "url": "https://e.com/a.png"}},
        [Media("image", ("https://e.com/a.png",))],
    ),
    (
        {"type": "document", "title": "a.pdf", "context": "From Ann.", "source": PDF},
        [Text("From Ann."), Media("file", ("data:application/pdf;base64,JVBERi0=",), name="a.pdf")],
    ),
    ({"type": "document", "source": {"type": "content", "content": "Page"}}, [Text("Page")]),
    ({"type": "document", "title": "T", "source": {"type": "text", "data": "x"}}, [Text("T\nx")]),
    ({"type": "search_result", "title": "T", "source": "s", "content": [text("a"), text("b")]}, [Text("T\ns\na\nb")]),
]


@pytest.mark.parametrize(("block", "parts"), USER_PARTS)
def test_a_block_of_a_user(block: Json, parts: list[Any]) -> None:
    [message] = parse(user(block, text("Hi"))).messages
    found = [
        Media(part.media, part.urls, name=part.name) if isinstance(part, Media) else part for part in message.parts
    ]
    assert found == [*parts, Text("Hi")]


SEALED = write_seal(Seal("Hm.", DETAILS, {"c": SIGNED}))


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": "", "signature": SEALED},
        {"type": "thinking", "thinking": "Hm.", "signature": SEALED},
        {"type": "redacted_thinking", "data": SEALED},
    ],
)
def test_a_seal_gives_back_the_thought_its_details_and_the_fields_of_calls(block: Json) -> None:
    parsed = parse(user(text("Hi")), assistant(block, call(a=1)))
    message = parsed.messages[1]
    assert message.parts == (Reasoning("Hm."), ToolCall("f", '{"a": 1}', "c", {"extra_content": SIGNED}))
    assert message.extra == {"reasoning_details": DETAILS}
    assert not parsed.warnings


def test_a_history_is_written_with_its_seals_and_read_again() -> None:
    signed = ToolCall("f", '{"a": 1}', "c", {"extra_content": SIGNED})
    plain = ToolCall("g", "{}", "d")
    results = [Message("tool", (ToolResult((Text("x"),), None, id_),)) for id_ in ("c", "d")]
    for parts, extra in (
        ((Reasoning("Hm."), Text("So"), signed, plain), {"reasoning_details": DETAILS}),
        ((signed, plain), {}),
        ((Text("So"), signed, plain), {"reasoning_details": DETAILS}),
    ):
        given = [Message("user", (Text("Hi"),)), Message("assistant", parts, extra=extra), *results]
        written = ANTHROPIC.write(given, Options())
        assert not written.losses
        [_, again, *_] = parse(*written.messages).messages
        assert (again.parts, again.extra) == (parts, extra)


def test_what_a_server_has_signed_is_kept_for_servers_of_its_api_with_a_warning_for_others() -> None:
    parsed = parse(user(text("Hi")), assistant({"type": "redacted_thinking", "data": "EmwK"}, text("So")))
    message = parsed.messages[1]
    assert message.parts == (Text("So"),) and not parsed.warnings
    assert message.extra["reasoning_details"] == [{"type": "reasoning.encrypted", "data": "EmwK", "format": FORMAT}]
    assert [warning.partition(":")[0] for warning in message.extra[UNREAD]] == ["messages[1].content[0]"]


def test_a_damaged_seal_is_left_out_with_a_warning() -> None:
    parsed = parse(user(text("Hi")), assistant({"type": "redacted_thinking", "data": "parley1.?"}, text("So")))
    assert parsed.messages[1] == Message("assistant", (Text("So"),), path="messages[1]")
    assert [warning.partition(":")[0] for warning in parsed.warnings] == ["messages[1].content[0]"]
    damaged = {"type": "thinking", "thinking": "a", "signature": "parley1.?"}
    assert not parse(user(text("Hi")), assistant(damaged)).messages[1].extra


def test_a_signed_thought_is_not_joined_with_one_that_is_not() -> None:
    signed = {"type": "thinking", "thinking": "a", "signature": "EmwK"}
    unsigned = {"type": "thinking", "thinking": "b", "signature": ""}
    for blocks, counts in (((signed, unsigned), [1, 0]), ((unsigned, signed), [0, 1]), ((signed, signed), [2])):
        parsed = parse(user(text("Hi")), assistant(*blocks, text("So")))
        assert [len(one.extra.get("reasoning_details", ())) for one in parsed.messages[1:]] == counts


def test_a_tool_of_the_provider_is_an_ordinary_call() -> None:
    used = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x"}}
    found = [{"type": "web_search_result", "url": "u", "page_age": None, "encrypted_content": "zz"}]
    result = {"type": "web_search_tool_result", "tool_use_id": "s", "content": found}
    page = {"content": {"source": {"type": "text", "data": ""}}}
    mcp = {"type": "mcp_tool_result", "tool_use_id": "s", "content": [text("a"), text("b")], "is_error": False}
    for block, content in (
        (result, [Text("[1] u\nu")]),
        ({**result, "type": "web_fetch_tool_result", "content": page}, []),
        (mcp, [Text("a"), Text("b")]),
    ):
        messages = parse(user(text("Hi")), assistant(used, block, text("So"))).messages
        assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
        assert list(messages[2].parts[0].content) == content  # type: ignore[union-attr]  # a result


@pytest.mark.parametrize(("content", "found"), [("No network.", "No network."), ("", "Error")])
def test_a_failed_tool_of_the_provider_has_a_text(content: str, found: str) -> None:
    used = {"type": "mcp_tool_use", "id": "s", "name": "f", "input": {}}
    result = {"type": "mcp_tool_result", "tool_use_id": "s", "content": content, "is_error": True}
    message = parse(user(text("Hi")), assistant(used, result)).messages[2]
    assert message.parts == (ToolResult((Text(found),), None, "s", True),)


def test_what_only_the_provider_could_use_is_left_out_with_a_warning() -> None:
    cited = {"type": "document", "source": {"type": "text", "data": "x"}, "citations": {"enabled": True}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "tool_reference"}, text("a")]}  # no name
    parsed = parse(user(text("Hi")), assistant(call()), user(result, cited))
    assert [message.parts for message in parsed.messages[2:]] == [
        (ToolResult((Text("a"),), None, "c"),),
        (Text("x"),),
    ]
    assert [warning.partition(":")[0] for warning in parsed.warnings] == [
        "messages[2].content[0].content[0]",
        "messages[2].content[1].citations",
    ]


def test_tools_that_a_search_has_found_are_named_in_its_result() -> None:
    found = [{"type": "tool_reference", "tool_name": name} for name in ("late", "later")]
    result = {"type": "tool_result", "tool_use_id": "c", "content": found}
    parsed = parse(user(text("Hi")), assistant(call()), user(result))
    texts = (Text("The tool late is available."), Text("The tool later is available."))
    assert parsed.messages[2].parts == (ToolResult(texts, None, "c"),)
    assert not parsed.warnings


def test_results_come_before_what_else_the_user_says_each_at_its_block() -> None:
    results = [{"type": "tool_result", "tool_use_id": id_, "content": id_} for id_ in ("b", "a")]
    messages = parse(user(text("Hi")), assistant(call("a"), call("b")), user(text("Here"), *results)).messages
    assert [(message.role, message.path) for message in messages[2:]] == [
        ("tool", "messages[2].content[1]"),
        ("tool", "messages[2].content[2]"),
        ("user", "messages[2]"),
    ]


REFUSED: list[tuple[Json, str]] = [
    (user(), "messages[0].content"),
    (user({"type": "container_upload", "file_id": "f"}), "messages[0].content[0]"),
    (user({"type": "image", "source": {"type": "file", "file_id": "f"}}), "messages[0].content[0].source"),
    (
        user({"type": "image", "source": {"type": "url", "url": "file:///etc/passwd"}}),
        "messages[0].content[0].source.url",
    ),
    (user({"type": "thinking", "thinking": "x"}), "messages[0].content[0]"),
    (user(call()), "messages[0].content[0]"),
    (assistant({"type": "image", "source": {"type": "url", "url": "https://e.com"}}), "messages[0].content[0]"),
    (assistant({"type": "tool_use", "id": "c", "name": "f"}), "messages[0].content[0].input"),
    (assistant({"type": "tool_use", "id": "c", "input": {}}), "messages[0].content[0].name"),
    ({"role": "system", "content": [{"type": "tool_result", "tool_use_id": "c"}]}, "messages[0].content[0]"),
    ({"role": "tool", "content": "x"}, "messages[0].role"),
    ({"role": "user", "content": 5}, "messages[0].content"),
    ({"role": "user"}, "messages[0].content"),
    (user(text("")), "messages[0].content"),
    ({"role": "user", "content": ""}, "messages[0].content"),
    ({"role": "system", "content": [{"type": "fallback"}]}, "messages[0].content[0]"),
]


@pytest.mark.parametrize("content", ["", [], [text("")], [text(""), text("")]])
def test_a_message_of_a_user_that_says_nothing_is_refused_at_its_place(content: Any) -> None:
    """Without it, the model would go on with the assistant's words before it."""
    messages = [user(text("Q")), assistant(text("A")), {"role": "user", "content": content}]
    for given in (messages, [*messages, assistant(text("B")), user(text("Q"))]):
        assert [violation.path for violation in parse(*given).violations] == ["messages[2].content"]


@pytest.mark.parametrize("content", ["", [], [text("")]])
def test_a_message_of_the_assistant_that_says_nothing_is_left_out(content: Any) -> None:
    parsed = parse(user(text("Q")), {"role": "assistant", "content": content}, user(text("Q2")))
    assert not parsed.violations
    assert [message.parts for message in parsed.messages] == [(Text("Q"),), (Text("Q2"),)]


def compaction(content: str | None, **fields: Any) -> Json:
    return {"type": "compaction", "content": content, **fields}


SUMMARY = (Text("Summary of the conversation so far:\n\nThey met."),)


def test_a_summary_stands_for_everything_before_it_but_system_messages() -> None:
    system = {"role": "system", "content": "Be kind."}
    before = [user(text("Hi")), system, assistant(call()), user({"type": "tool_result", "tool_use_id": "c"})]
    parsed = parse(
        *before, assistant(text("Old"), compaction("They met.", signature="x"), text("New")), user(text("Q"))
    )
    assert [(message.role, message.parts) for message in parsed.messages] == [
        ("system", (Text("Be kind."),)),
        ("user", SUMMARY),
        ("assistant", (Text("New"),)),
        ("user", (Text("Q"),)),
    ]
    assert (parsed.violations, parsed.warnings) == ([], [])


def test_the_last_summary_counts_also_in_a_message_of_the_user() -> None:
    parsed = parse(assistant(compaction("Older.")), user(text("Hi"), compaction("They met."), text("Q")))
    assert [message.parts for message in parsed.messages] == [SUMMARY, (Text("Q"),)]


def test_a_summary_that_failed_changes_nothing_and_one_that_is_encrypted_is_left_out_with_a_warning() -> None:
    for block, warned in (
        (compaction(None), []),
        (compaction(None, encrypted_content="zz"), ["messages[1].content[0]"]),
    ):
        parsed = parse(user(text("Hi")), assistant(block, text("So")))
        assert [message.parts for message in parsed.messages] == [(Text("Hi"),), (Text("So"),)]
        assert [warning.partition(":")[0] for warning in parsed.warnings] == warned


def test_blocks_that_no_model_is_shown_are_left_out_silently() -> None:
    hop = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}, "trigger": {"type": "refusal"}}
    listing = {"type": "mcp_tool_listing", "mcp_server_name": "s", "tools": []}
    added = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}}
    parsed = parse(user(text("Hi"), added), assistant(text("a"), hop, listing, text("b")))
    assert [message.parts for message in parsed.messages] == [(Text("Hi"),), (Text("a"), Text("b"))]
    assert parsed.warnings == []


@pytest.mark.parametrize(("message", "path"), REFUSED)
def test_what_cannot_be_read_is_refused_at_its_place(message: Json, path: str) -> None:
    assert [violation.path for violation in parse(message).violations] == [path]


def test_unknown_keys_are_named() -> None:
    parsed = parse({**user({**text("Hi"), "citations": [{"type": "x"}], "mood": None}), "later": 1})
    assert [warning.partition(" ")[0] for warning in parsed.warnings] == [
        "messages[0].later",
        "messages[0].content[0].citations",
    ]


def test_the_system_field_is_one_message_without_the_billing_header() -> None:
    blocks = [text("x-anthropic-billing-header: cch=1;"), text("Be kind."), text("")]
    assert parse_system(blocks, "system").messages[0].parts == (Text("Be kind."),)
    assert (
        parse_system(blocks[:1], "system").messages
        == parse_system("", "system").messages
        == parse_system(None, "system").messages
        == ()
    )
    assert [violation.path for violation in parse_system([call()], "system").violations] != []


def test_a_thought_between_two_texts_needs_no_turn_and_two_thoughts_do() -> None:
    thought = {"type": "thinking", "thinking": "Hm."}
    assert parse(user(text("Hi")), assistant(thought, text("a"), text("b"))).messages[1].turn is None
    assert parse(user(text("Hi")), assistant(thought, text("a"), thought)).messages[1].turn == "messages[1]"


@pytest.mark.parametrize(
    ("value", "arguments"),
    [({"a": 1}, '{"a": 1}'), ('{"a":1}', '{"a":1}'), ("x", '"x"'), ([1], "[1]"), (2, "2"), (None, "null")],
)
def test_an_input_that_is_no_object_comes_back_as_it_went_out(value: Any, arguments: str) -> None:
    [call] = parse(assistant({"type": "tool_use", "id": "c", "name": "f", "input": value})).messages[0].parts
    assert isinstance(call, ToolCall) and call.arguments == arguments


def test_messages_that_are_all_empty_are_refused() -> None:
    parsed = parse({"role": "assistant", "content": ""})
    assert parsed.messages == ()
    assert [(one.path, one.message) for one in parsed.violations] == [
        ("messages", "no message has content for the model")
    ]
