"""Messages that are sent once more in the form that a refusing server has asked for."""

from typing import Any

import msgspec
from app.chat.events import Fault
from app.chat.messages import BRIDGE
from app.upstream.api import find_api, repair_refused

from tests.each_case import each_case
from tests.linear_time import linear

Json = dict[str, Any]


def repair(messages: Any, words: str, code: str = "invalid_request") -> Any:
    """Return the messages that are sent after a refusal in these words; None if none are."""
    body = msgspec.json.encode({"model": "m", "messages": messages})
    repaired = repair_refused(find_api("chat_completions"), body, Fault(code, words, False, 400))
    return None if repaired is None else msgspec.json.decode(repaired.data)["messages"]


def say(role: str, content: Any = "a", **more: Any) -> Json:
    return {"role": role, "content": content, **more}


def call(id_: str = "call_1") -> Json:
    function = {"name": "f", "arguments": "{}"}
    return say("assistant", None, tool_calls=[{"id": id_, "type": "function", "function": function}])


def result(id_: str = "call_1", content: Any = "r") -> Json:
    return say("tool", content, tool_call_id=id_)


def text(words: str) -> Json:
    return {"type": "text", "text": words}


IMAGE: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
NO_IMAGE = text("[an image, which this model cannot see]")


@each_case(
    "words",
    [
        "System message must be at the beginning.",
        "Error rendering prompt with jinja template: System message must be at the beginning.",
        "system messages should come first",
        "There can be only one system message",
        "invalid params, invalid chat setting (2013)",
        "Unexpected role 'system' after role 'assistant'",
    ],
)
def test_system_messages_are_one_before_all_others(words: str) -> None:
    messages = [say("user"), say("system", "b"), say("assistant"), say("developer", [text("c")]), say("user")]
    first = say("system", [text("b"), text("c")])
    assert repair(messages, words) == [first, say("user"), say("assistant"), say("user")]
    assert repair([say("system", "b"), say("system", "c"), say("user")], words) == [
        say("system", "b\n\nc"),
        say("user"),
    ]
    assert repair([say("system", "b"), say("user")], words) is None
    assert repair([say("user")], words) is None


def test_a_role_that_is_refused_even_so_is_the_users() -> None:
    words = "invalid params, chat content has invalid message role: system (2013)"
    assert repair([say("user"), say("system", "b")], words) == [say("system", "b"), say("user")]
    assert repair([say("system", "b"), say("user")], words) == [say("user", "b\n\na")]


@each_case(
    "words",
    [
        "messages: text content blocks must contain non-whitespace text",
        "messages: text content blocks must be non-empty",
        "The text field in the ContentBlock object at messages.2.content.0 is blank.",
        "messages.1: all messages must have non-empty content",
        "Assistant message must have either content or tool_calls, but not none.",
    ],
)
def test_blank_texts_are_left_out_or_short_ones(words: str) -> None:
    parts = [text(" "), IMAGE, text("b")]
    messages = [say("user", parts), say("assistant", ""), call(), result(content="\n"), say("assistant", [text("")])]
    sent = [say("user", parts[1:]), call(), result(content=BRIDGE)]
    assert repair(messages, words) == sent
    assert repair([say("user", " ")], words) == [say("user", BRIDGE)]
    assert repair([say("user"), {**call(), "content": " "}], words) == [say("user"), call()]
    assert repair([say("user"), call(), result()], words) is None


@each_case(
    "words",
    [
        "Invalid value for 'content': expected a string, got null.",
        "messages[1].content cannot be null",
        "messages[1]: invalid type: null, expected a string at line 1 column 90",
    ],
)
def test_content_is_an_empty_text_where_null_is_refused(words: str) -> None:
    assert repair([say("user"), call(), result()], words) == [say("user"), {**call(), "content": ""}, result()]
    assert repair([say("user"), {**call(), "content": ""}], words) is None


def test_the_last_message_has_no_reasoning_where_none_may_be() -> None:
    words = "an `assistant` message in the final position cannot contain `thinking`."
    thought = say("assistant", reasoning_content="t", reasoning_details=[])
    assert repair([say("user"), thought, say("user"), thought], words) == [
        *(say("user"), thought, say("user"), say("assistant"))
    ]
    assert repair([say("user"), thought, say("user")], words) is None


@each_case("words", ["System role not supported", "This model does not support system messages."])
def test_system_messages_are_with_the_user_where_none_are_taken(words: str) -> None:
    assert repair([say("system", "b"), say("user"), say("assistant")], words) == [
        say("user", "b\n\na"),
        say("assistant"),
    ]
    assert repair([say("system", "b"), say("user", [IMAGE])], words) == [say("user", [text("b"), IMAGE])]
    assert repair([say("assistant"), say("system", "b")], words) == [say("user", "b"), say("assistant")]
    assert repair([say("user")], words) is None


@each_case(
    "words",
    [
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "After the optional system message, conversation roles must alternate user/assistant/user/assistant/...",
        "Unexpected role 'user' after role 'user'",
    ],
)
def test_neighbours_of_one_role_are_merged(words: str) -> None:
    messages = [say("user"), say("user", "b"), say("assistant"), say("assistant", [text("c")]), call(), result()]
    assert repair(messages, words) == [
        say("user", "a\n\nb"),
        say("assistant", [text("a"), text("c")]),
        call(),
        result(),
    ]
    assert repair([say("user"), call(), result(), result("call_2"), say("assistant")], words) is None


def test_a_message_of_the_assistant_is_behind_results() -> None:
    words = "Unexpected role 'user' after role 'tool'"
    turns = [say("user"), call(), result()]
    assert repair([*turns, say("user")], words) == [*turns, say("assistant", BRIDGE), say("user")]
    assert repair([*turns, say("assistant"), say("user")], words) is None


@each_case(
    "words",
    [
        "No user query found in messages.",
        "The messages parameter is illegal. Please check the documentation.",
        "messages must contain at least one user message",
    ],
)
def test_a_conversation_has_a_message_of_the_user(words: str) -> None:
    assert repair([say("system"), call(), result()], words) == [say("system"), say("user", BRIDGE), call(), result()]
    assert repair([say("system"), say("system", "b")], words) == [say("system"), say("user", "b")]
    assert repair([say("user")], words) is None
    assert repair([], words) is None


@each_case(
    "words",
    [
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
        "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40",
    ],
)
def test_ids_are_of_the_strictest_form(words: str) -> None:
    changed = repair([say("user"), call(), result(), call("abcDEF123"), result("abcDEF123")], words)
    short = changed[1]["tool_calls"][0]["id"]
    assert len(short) == 9
    assert short.isalnum()
    assert changed == [say("user"), call(short), result(short), call("abcDEF123"), result("abcDEF123")]
    assert repair([say("user"), call("abcDEF123"), result("abcDEF123")], words) is None


@each_case(
    "words",
    [
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "Missing reasoning_content field in the assistant message at message index 2.",
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
    ],
)
def test_turns_without_reasoning_have_a_blank_one(words: str) -> None:
    reasoned = say("assistant", reasoning_content="so")
    assert repair([say("user"), call(), reasoned], words) == [
        say("user"),
        {**call(), "reasoning_content": " "},
        reasoned,
    ]
    assert repair([say("user"), reasoned], words) is None


@each_case(
    "words",
    [
        "messages[0]: unknown variant `image_url`, expected `text`",
        "No endpoints found that support image input",
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
        "At most 0 image(s) may be provided in one prompt.",
        "This model does not support image inputs",
        "m is not a multimodal model",
    ],
)
def test_earlier_images_are_words_where_none_are_taken(words: str) -> None:
    seen, blind = say("user", [text("b"), IMAGE]), say("user", [text("b"), NO_IMAGE])
    assert repair([seen, say("assistant"), say("user")], words) == [blind, say("assistant"), say("user")]
    assert repair([seen, say("assistant"), seen], words) == [blind, say("assistant"), seen]
    assert repair([seen], words) is None
    assert repair([say("user"), call(), result(), seen], words) == [say("user"), call(), result(), blind]
    assert repair([say("user"), call(), result(content=[IMAGE])], words) == [
        say("user"),
        call(),
        result(content=[NO_IMAGE]),
    ]


@each_case(
    "words",
    [
        "litellm.UnsupportedParamsError: Anthropic doesn't support tool calling without `tools=` param specified",
        "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
    ],
)
def test_the_functions_of_earlier_calls_are_offered_where_they_are_demanded(words: str) -> None:
    def send(body: Json) -> Any:
        fault = Fault("invalid_request", words, False, 400)
        repaired = repair_refused(find_api("chat_completions"), msgspec.json.encode(body), fault)
        return None if repaired is None else msgspec.json.decode(repaired.data)

    body = {"model": "m", "messages": [say("user"), call(), result(), call("call_2"), result("call_2")]}
    function = {"name": "f", "parameters": {"type": "object", "properties": {}}}
    assert send(body) == {**body, "tools": [{"type": "function", "function": function}], "tool_choice": "none"}
    assert send({**body, "tools": [{}]}) is None
    assert send({**body, "messages": [say("user")]}) is None
    assert send({**body, "messages": "text"}) is None


@each_case(
    "words",
    [
        "the system is at its limit",
        "messages[1].role: unknown value",
        "tool call failed",
        "reasoning_content is unknown",
        "the file is too large",
        "user messages are limited",
    ],
)
def test_other_words_change_no_messages(words: str) -> None:
    messages = [call(), result(), say("system"), say("system"), say("user", [IMAGE]), say("user", "b")]
    assert repair(messages, words) is None


def test_only_a_refusal_changes_messages() -> None:
    messages = [say("user"), say("system")]
    assert repair(messages, "System message must be at the beginning.", code="rate_limit") is None
    assert repair("text", "System message must be at the beginning.") is None


@each_case(
    "word",
    [
        "system message must be ",
        "unexpected role user ",
        "reasoning_content ",
        "missing ",
        "must have a user ",
        "id': ",
        "image ",
        "does not support ",
        "content text ",
        "content must not ",
    ],
)
def test_a_long_refusal_is_read_in_linear_time(word: str) -> None:
    messages = [call(), result(), say("system"), say("user", [IMAGE]), say("user", "b")]
    assert linear(lambda size: repair(messages, word * size), 500)
