"""The language of a conversation and where its system message stands."""

from typing import Any

import pytest
from app.chat.attachments import FileText, Section
from app.chat.messages import ChatRequest, Media, Message, Text, Tool
from app.profiles import Profile
from app.runtime.token_counting import TokenCounters
from app.steps.pipeline import media_requests, prepare_request
from app.steps.prompt_language import detect_language
from app.steps.system import add_default_system, drop_empty_system, place_system

from tests.steps.conversations import conversation, texts


def request_of(*turns: tuple[str, str]) -> ChatRequest:
    return conversation(*({"role": role, "content": content} for role, content in turns))


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([("user", "hello")], "en"),
        ([("user", "你好")], "zh"),
        ([("system", "用中文"), ("user", "hello")], "zh"),
        ([("user", "hello"), ("assistant", "你好")], "en"),
        ([("user", "hello"), ("function", "你好")], "en"),
        ([("user", "こんにちは、カタカナ")], "en"),
        ([("user", "\u4e00")], "zh"),
        ([("user", "\u9fff")], "zh"),
        ([("user", "\u3400\ua000")], "en"),
    ],
)
def test_a_chinese_character_of_system_or_user_makes_it_chinese(turns: list[tuple[str, str]], expected: str) -> None:
    assert detect_language(request_of(*turns)) == expected


@pytest.mark.parametrize(("given", "text"), [("en", "你好"), ("zh", "hello")])
def test_the_callers_word_on_the_language_wins(given: str, text: str) -> None:
    assert detect_language(conversation({"role": "user", "content": text}, params={"lang": given})) == given


@pytest.mark.parametrize(("url", "expected"), [("http://x/报告.pdf", "zh"), ("data:text/plain,报告", "en")])
def test_names_of_files_count_and_their_content_does_not(url: str, expected: str) -> None:
    request = ChatRequest("m", (Message("user", (Media("file", (url,)),)),))
    assert detect_language(request) == expected


@pytest.mark.parametrize("prompt", ["nous", "qwen"])
def test_the_text_of_a_file_does_not_change_the_language(prompt: Any) -> None:
    reader = Profile(native_tools=False, fncall_prompt_type=prompt, media=())
    file = Media("file", ("data:text/plain,x",))
    request = ChatRequest("m", (Message("user", (Text("hello"), file)),), (Tool("f", {"name": "f"}),))
    [want] = media_requests(request, reader)
    read = FileText((Section("报告"),))
    seen, _ = prepare_request(request, reader, TokenCounters(()).get(None), {want: read})
    assert seen.params["lang"] == "en"
    assert "报告" in texts(seen)[-1][1]
    assert texts(seen)[0][1].startswith("# Tools")


BOTH = Profile(default_system={"en": "Help.", "zh": "帮忙。"})


def test_the_default_system_message_is_the_models_in_the_conversations_language() -> None:
    assert texts(add_default_system(request_of(("user", "q")), BOTH, "en")) == [("system", "Help."), ("user", "q")]
    assert texts(add_default_system(request_of(("user", "q")), BOTH, "zh")) == [("system", "帮忙。"), ("user", "q")]


def test_one_language_serves_for_both() -> None:
    one = Profile(default_system={"en": "Help."})
    assert texts(add_default_system(request_of(("user", "q")), one, "zh"))[0] == ("system", "Help.")


@pytest.mark.parametrize("profile", [BOTH, Profile()])
def test_a_conversation_with_a_system_message_needs_no_default(profile: Profile) -> None:
    request = request_of(("user", "a"), ("system", "s"), ("user", "q"))
    assert add_default_system(request, profile, "en") is request
    assert add_default_system(request_of(("user", "q")), Profile(), "en") == request_of(("user", "q"))


MIXED = (("user", "a"), ("system", "s"), ("assistant", "b"), ("system", "t"), ("user", "c"))


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("anywhere", list(MIXED)),
        ("leading", [("system", "s"), ("system", "t"), ("user", "a"), ("assistant", "b"), ("user", "c")]),
        ("merged", [("system", "s\n\nt"), ("user", "a"), ("assistant", "b"), ("user", "c")]),
        ("none", [("user", "s\n\nt\n\na"), ("assistant", "b"), ("user", "c")]),
    ],
)
def test_system_messages_stand_where_the_model_takes_them(place: str, expected: list[tuple[str, str]]) -> None:
    profile = Profile.model_validate({"system": place})
    request = request_of(*MIXED)
    assert texts(place_system(request, profile)) == expected
    assert request == request_of(*MIXED)


def test_the_first_user_message_has_the_system_text_wherever_it_stands() -> None:
    request = request_of(("system", "s"), ("assistant", "a"), ("user", "q"))
    assert texts(place_system(request, Profile(system="none"))) == [("assistant", "a"), ("user", "s\n\nq")]


def test_without_a_user_message_the_system_message_becomes_one() -> None:
    assert texts(place_system(request_of(("system", "s")), Profile(system="none"))) == [("user", "s")]


def test_media_of_the_first_user_stay_behind_the_system_text() -> None:
    image = Media("image", ("http://x/y.png",))
    request = ChatRequest("m", (Message("system", (Text("s"),)), Message("user", (image, Text("q")))))
    assert place_system(request, Profile(system="none")).messages[0].parts == (Text("s"), image, Text("q"))


def test_an_empty_system_message_is_dropped_unless_it_is_alone() -> None:
    empty, hi = Message("system", (Text(" "),)), Message("user", (Text("Hi"),))
    assert drop_empty_system(ChatRequest("m", (empty, hi))).messages == (hi,)
    assert drop_empty_system(ChatRequest("m", (empty,))).messages == (empty,)
    said = ChatRequest("m", (Message("system", (Text("Be brief."),)), hi))
    assert drop_empty_system(said) is said
