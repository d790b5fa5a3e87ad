"""One conversation says the same in every format, to a reader and to a model server, and so does its translation."""

import re

import pytest
from app.formats import FORMATS
from app.formats.detect import detect

from tests.conversations.sample_conversations import (
    CANNOT_SAY,
    FOLDER,
    MODELS,
    MOVES_MEDIA,
    NAMED,
    NAMES,
    NO_ERROR_FLAG,
    NO_NOTES,
    PAIRS,
    PROFILES,
    Gateway,
    convert,
    golden,
    normalize_messages,
    without_errors,
)
from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running

each = each_case("conversation", NAMES)
each_form = each_case("form", FORMATS)
each_pair = each_case(("conversation", "form", "to"), PAIRS)
MEDIA_OF_TOOLS = "picture_of_a_tool"
LOST = {
    (MEDIA_OF_TOOLS, "openai"),
    (MEDIA_OF_TOOLS, "autogen"),
    ("sound", "autogen"),
    ("file", "autogen"),
    ("file", "agentscope"),
}
"""Media that a format shows as text, or elsewhere."""
DATED = {"agentscope", "agentscope2"}
"""Formats whose messages have an id and a time, which OpenAI's and Anthropic's have not."""


def loses(conversation: str, form: str, to: str) -> bool:
    if (conversation, to) in CANNOT_SAY:
        return form != to
    if (conversation, form, to) == ("chinese", "autogen", "responses"):
        return True  # the name of the sender
    if to == "responses" and form != to:
        dated = form in DATED and (conversation, form) not in LOST
        return dated or (conversation == "failed" and form not in NO_ERROR_FLAG)
    if to == "gemini" and conversation == "failed" and form not in NO_ERROR_FLAG:
        return True
    from_anthropic = form == "anthropic" and to == "openai"
    if to not in NO_NOTES or form in NO_NOTES and not from_anthropic:
        return (conversation, to) in LOST and (form != "openai" or conversation != MEDIA_OF_TOOLS)
    if (form, to) == ("autogen", "gemini"):
        return conversation not in ("picture_of_a_tool", "file", "sound")  # the names of the senders
    if (form, to) == ("autogen", "anthropic"):
        return conversation not in ("picture_of_a_tool", "file")  # the names of the senders
    dated = (form in DATED and (conversation, form) not in LOST) or (conversation, form) == ("speakers", "autogen")
    failed = conversation == "failed" and form not in NO_ERROR_FLAG
    return dated or (to == "openai" and (failed or conversation == MEDIA_OF_TOOLS))


@each
@each_form
def test_every_conversation_stands_in_every_format(conversation: str, form: str) -> None:
    assert (FOLDER / conversation / f"{form}.json").is_file()


@each
def test_no_file_is_of_an_unknown_format(conversation: str) -> None:
    assert {path.stem for path in (FOLDER / conversation).glob("*.json")} == FORMATS.keys()


@each
@each_form
def test_a_conversation_is_read_as_the_same_messages(conversation: str, form: str) -> None:
    if (conversation, form) in CANNOT_SAY:
        return
    ours, theirs = (
        normalize_messages(one, golden(conversation, one), named=conversation in NAMED) for one in (form, "qwen")
    )
    if conversation == MEDIA_OF_TOOLS and form in MOVES_MEDIA:
        assert len(ours) == len(theirs) + 1
        return
    assert ours == (without_errors(theirs) if form in NO_ERROR_FLAG else theirs)


@each
@each_form
@each_case("profile", PROFILES)
def test_a_model_server_is_sent_the_same_bytes(gateway: Gateway, conversation: str, form: str, profile: str) -> None:
    if (profile == "named" and conversation not in NAMED) or (conversation, form) in CANNOT_SAY:
        return
    ours = gateway.body(form, golden(conversation, form), profile)
    assert ours == gateway.body("qwen", golden(conversation, "qwen"), profile)


@each
def test_a_reply_to_a_conversation_is_cached_for_every_format(conversation: str) -> None:
    server = ModelServer()
    with Running({**MODELS, "cache": {}}, server) as running:
        for form in FORMATS:
            if (conversation, form) in CANNOT_SAY:
                continue
            request = {"model": "plain", "format": form, "reply_format": "qwen", "stream": False}
            answer = running.post("/v1/chat", {**request, "messages": golden(conversation, form)}).json
            assert answer["messages"] == [{"role": "assistant", "content": "Hello"}]
            assert bool(answer["cached"]) is (form != next(iter(FORMATS)))
    assert len(server.requests) == 1


@each
@each_form
def test_auto_finds_the_format(gateway: Gateway, conversation: str, form: str) -> None:
    messages = golden(conversation, form)
    if (conversation, form) in CANNOT_SAY:
        return
    found, mixed = detect(messages)
    plain = all(set(one) <= {"role", "content", "name"} and isinstance(one["content"], str) for one in messages)
    assert not mixed
    assert found == ("qwen" if plain else form)
    assert gateway.body("auto", messages) == gateway.body(form, messages)


@each_pair
def test_a_translation_says_the_same(gateway: Gateway, conversation: str, form: str, to: str) -> None:
    messages = golden(conversation, form)
    if form != to and {(conversation, form), (conversation, to)} & CANNOT_SAY:
        return
    there, _ = convert(form, to, messages)
    assert gateway.body(to, there) == gateway.body(form, messages)
    ours, theirs = (
        normalize_messages(one, items, named=conversation in NAMED) for one, items in ((to, there), (form, messages))
    )
    if (conversation, to) != (MEDIA_OF_TOOLS, "openai") and (conversation, to) not in CANNOT_SAY:
        assert ours == (without_errors(theirs) if to in NO_NOTES & NO_ERROR_FLAG else theirs)


@each_pair
def test_a_translation_warns_of_what_is_lost(conversation: str, form: str, to: str) -> None:
    messages = golden(conversation, form)
    if (conversation, form) in CANNOT_SAY:
        return
    _, warnings = convert(form, to, messages)
    assert bool(warnings) is loses(conversation, form, to)
    assert all(re.match(r"messages\[\d\]\S*: ", warning) for warning in warnings)


@each_pair
def test_what_comes_back_without_a_loss_is_as_it_was(conversation: str, form: str, to: str) -> None:
    messages = golden(conversation, form)
    there, _ = convert(form, to, messages)
    back, _ = convert(to, form, there)
    assert back == messages or to in NO_NOTES
    assert convert(form, to, back)[0] == there


@pytest.mark.parametrize("to", FORMATS)
def test_strict_refuses_a_loss_and_nothing_else(gateway: Gateway, to: str) -> None:
    asked = {"from": "qwen", "to": to, "messages": golden("file", "qwen"), "strict": True}
    answer = gateway.running.post("/v1/convert", asked)
    assert answer.status == (422 if loses("file", "qwen", to) else 200)
    if answer.status == 422:
        assert answer.json["error"]["param"] == "messages[0].content[1].file"
