"""What Qwen-Agent does to a conversation is done to those in its own format; the others are sent as they are."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running

Json = dict[str, Any]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mM4IScHAAK2AQUKW6YGAAAAAElFTkSuQmCC"
URI = f"data:image/png;base64,{PNG}"
TEXT_FILE = "data:text/plain;base64,aGVsbG8="
LOOK = {"name": "look", "parameters": {"type": "object", "properties": {}}}
OTHERS = ("openai", "autogen", "agentscope", "agentscope2")
each_other = each_case("form", OTHERS)

PROFILES: dict[str, Json] = {
    "plain": {},
    "blind": {"media": []},
    "named": {"media": [], "name_media": "untaken"},
    "all_named": {"name_media": "with_tools"},
    "silent": {"name_media": "never"},
    "defaulted": {"default_system": {"en": "Be kind.", "zh": "请友善。"}},
    "no_end": {"assistant_last": False},
    "marking": {"continuation": "prefix"},
    "prompted": {"native_tools": False},
    "strict": {"alternate": True, "system": "merged"},
}
KINDS = ("openai", "openai_compatible", "openrouter", "xai")
MODELS = {
    "upstreams": {
        "local": {"base_url": "http://model.test/v1"},
        **{kind: {"base_url": "http://model.test/v1", "kind": kind} for kind in KINDS},
    },
    "models": {
        **{name: {"upstreams": ["local"], "profile": profile} for name, profile in PROFILES.items()},
        **{f"kind_{kind}": {"upstreams": [kind]} for kind in KINDS},
    },
}


class Gateway:
    def __init__(self, running: Running, server: ModelServer) -> None:
        self._running = running
        self._server = server

    def answer(self, form: str, messages: list[Json], model: str = "plain", **fields: Any) -> Answer:
        request = {"model": model, "format": form, "messages": messages, "stream": False, **fields}
        return self._running.post("/v1/chat", {**request, "reply_format": "qwen"})

    def sent(self, form: str, messages: list[Json], model: str = "plain", **fields: Any) -> list[Json]:
        """What the model server is sent, of a request that is answered without a warning."""
        found, warnings = self.sent_with_warnings(form, messages, model, **fields)
        assert warnings == []
        return found

    def sent_with_warnings(
        self, form: str, messages: list[Json], model: str = "plain", **fields: Any
    ) -> tuple[list[Json], list[str]]:
        answer = self.answer(form, messages, model, **fields)
        assert answer.status == 200, answer.body
        return json.loads(self._server.requests[-1].content)["messages"], answer.json["warnings"]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    server = ModelServer()
    with Running(MODELS, server) as running:
        yield Gateway(running, server)


def write_message(form: str, role: str, *texts: str, image: str | None = None) -> Json:
    """One message of these texts, and an image behind them, as a client of this format writes it."""
    if form == "openai":
        parts: list[Any] = [{"type": "text", "text": text} for text in texts]
        parts += [{"type": "image_url", "image_url": {"url": image}}] if image else []
        return {"role": role, "content": parts if len(parts) != 1 or image else texts[0]}
    if form == "qwen":
        items = [{"text": text} for text in texts] + ([{"image": image}] if image else [])
        return {"role": role, "content": items if len(items) != 1 else texts[0]}
    if form == "autogen":
        return _of_autogen(role, texts, image)
    blocks: list[Any] = [{"type": "text", "text": text} for text in texts]
    if image and form == "agentscope":
        blocks.append({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}})
    elif image:
        blocks.append({"type": "data", "source": {"type": "base64", "media_type": "image/png", "data": PNG}})
    return {"name": role, "role": role, "content": blocks}


def _of_autogen(role: str, texts: tuple[str, ...], image: str | None) -> Json:
    if role == "system":
        return {"type": "SystemMessage", "content": texts[0]}
    if role == "assistant":
        return {"type": "AssistantMessage", "source": "assistant", "content": texts[0]}
    content: Any = [*texts, *([{"data": PNG}] if image else [])]
    return {"type": "UserMessage", "source": "user", "content": content if len(content) != 1 or image else texts[0]}


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def parts(*texts: str) -> Json:
    content: list[Json] = [{"type": "text", "text": text} for text in texts]
    return {"role": "user", "content": [*content, {"type": "image_url", "image_url": {"url": URI}}]}


# -- media --------------------------------------------------------------


@each_other
@each_case("text", ["What is this?", "这是什么？"])
@each_case("functions", [[], [LOOK]])
def test_an_image_is_not_named_in_words(gateway: Gateway, form: str, text: str, functions: list[Json]) -> None:
    assert gateway.sent(form, [write_message(form, "user", text, image=URI)], functions=functions) == [parts(text)]


@pytest.mark.parametrize(
    ("text", "prefix"), [("Hi", "(Uploaded ![image](image.png)) "), ("你好", "（上传了 ![图片](image.png)）")]
)
def test_qwen_agents_own_format_names_it_where_there_are_functions(gateway: Gateway, text: str, prefix: str) -> None:
    messages = [write_message("qwen", "user", text, image=URI)]
    assert gateway.sent("qwen", messages, functions=[LOOK]) == [parts(prefix, text)]
    assert gateway.sent("qwen", messages) == [parts(text)]


@pytest.mark.parametrize("form", [*OTHERS, "qwen"])
def test_a_profile_that_says_what_is_named_decides_for_every_format(gateway: Gateway, form: str) -> None:
    messages = [write_message(form, "user", "Hi", image=URI)]
    prefix = "(Uploaded ![image](image.png)) "
    assert gateway.sent(form, messages, "all_named", functions=[LOOK]) == [parts(prefix, "Hi")]
    assert gateway.sent(form, messages, "silent", functions=[LOOK]) == [parts("Hi")]
    [blind] = gateway.sent(form, messages, "named")
    assert blind["content"].replace("\n", "") == f"{prefix}Hi"


@each_other
def test_an_image_that_a_model_does_not_take_is_refused_with_its_place(gateway: Gateway, form: str) -> None:
    error = gateway.answer(form, [write_message(form, "user", "Hi", image=URI)], "blind").json["error"]
    assert (error["status"], error["param"].startswith("messages[0].content[1]")) == (422, True)
    assert "does not accept image input" in error["message"]


@pytest.mark.parametrize("text", ["Read this", "读一下"])
def test_the_text_of_a_file_is_inserted_without_a_sentence_and_in_no_other_language(
    gateway: Gateway, text: str
) -> None:
    file = {"type": "file", "file": {"file_data": TEXT_FILE, "filename": "a.txt"}}
    message = {"role": "user", "content": [{"type": "text", "text": text}, file]}
    [sent] = gateway.sent("openai", [message], "blind", functions=[LOOK])
    assert sent["content"].startswith(f'{text}\n\n<file name="a.txt">\nhello\n</file>')


def test_an_image_of_a_tool_is_named_to_a_model_that_takes_none_with_a_warning(gateway: Gateway) -> None:
    call = {"type": "tool_use", "id": "1", "name": "look", "input": {}}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    result = {"type": "tool_result", "id": "1", "name": "look", "output": [image]}
    messages = [
        write_message("agentscope", "user", "看"),
        {"name": "a", "role": "assistant", "content": [call]},
        {"name": "system", "role": "system", "content": [result]},
    ]
    found, warnings = gateway.sent_with_warnings("agentscope", messages, "blind", functions=[LOOK])
    assert found[-1]["content"] == "[image: image.png]"
    assert [one for one in warnings if "does not accept image input" in one] == warnings != []


# -- a last assistant message --------------------------------------------------------------


@each_other
@each_case("model", ["plain", *(f"kind_{kind}" for kind in KINDS), "prompted"])
def test_a_last_assistant_message_is_sent_behind_the_users(gateway: Gateway, form: str, model: str) -> None:
    messages = [write_message(form, "user", "q"), write_message(form, "assistant", "It is")]
    found = [{key: one[key] for key in ("role", "content")} for one in gateway.sent(form, messages, model)]
    assert found == [user("q"), {"role": "assistant", "content": "It is"}]


@pytest.mark.parametrize("kind", KINDS)
def test_qwen_agents_own_format_folds_it(gateway: Gateway, kind: str) -> None:
    messages = [write_message("qwen", "user", "q"), write_message("qwen", "assistant", "It is")]
    assert gateway.sent("qwen", messages, f"kind_{kind}") == [user("q\n\nIt is")]


@each_other
def test_a_server_that_takes_none_at_the_end_gets_it_folded_with_a_warning(gateway: Gateway, form: str) -> None:
    messages = [write_message(form, "user", "q"), write_message(form, "assistant", "It is")]
    found, [warning] = gateway.sent_with_warnings(form, messages, "no_end")
    assert [one["content"] for one in found] == ["q\n\nIt is"]
    assert warning.startswith("messages[1] was appended to the user's message")


@each_other
def test_functions_in_the_prompt_leave_the_last_message_where_it_is(gateway: Gateway, form: str) -> None:
    messages = [write_message(form, "user", "q"), write_message(form, "assistant", "It is")]
    for prompt in ("nous", "qwen"):
        cfg = {"fncall_prompt_type": prompt}
        found = gateway.sent(form, messages, "prompted", functions=[LOOK], generate_cfg=cfg)
        assert found[0]["role"] == "system"
        assert found[1:] == [user("q"), {"role": "assistant", "content": "It is"}]


def test_a_marked_continuation_is_marked_in_every_format(gateway: Gateway) -> None:
    for form in (*OTHERS, "qwen"):
        messages = [write_message(form, "user", "q"), write_message(form, "assistant", "It is")]
        assert gateway.sent(form, messages, "marking")[-1].get("prefix") is True


# -- system messages, neighbours, texts --------------------------------------------------------------


@each_other
@pytest.mark.parametrize(("text", "system"), [("Hi", "Be kind."), ("你好", "请友善。")])
def test_no_system_message_is_added_but_a_profiles_own(gateway: Gateway, form: str, text: str, system: str) -> None:
    messages = [write_message(form, "user", text)]
    assert gateway.sent(form, messages, functions=[LOOK]) == [user(text)]
    assert gateway.sent(form, messages, "defaulted") == [{"role": "system", "content": system}, user(text)]


@each_other
def test_neighbours_stay_apart_but_where_a_profile_merges_them(gateway: Gateway, form: str) -> None:
    messages = [write_message(form, "user", "one"), write_message(form, "user", "two")]
    assert gateway.sent(form, messages, functions=[LOOK]) == [user("one"), user("two")]
    assert gateway.sent(form, messages, "strict") == [user("one\n\ntwo")]


@pytest.mark.parametrize("form", ["openai", "autogen"])
def test_nothing_is_inserted_between_two_users_where_old_calls_are_written_as_text(gateway: Gateway, form: str) -> None:
    calls: dict[str, list[Json]] = {
        "openai": [
            {
                "role": "assistant",
                "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "1", "content": "r"},
        ],
        "autogen": [
            {"type": "AssistantMessage", "source": "a", "content": [{"id": "1", "name": "f", "arguments": "{}"}]},
            {"type": "FunctionExecutionResultMessage", "content": [{"call_id": "1", "name": "f", "content": "r"}]},
        ],
    }
    messages = [write_message(form, "user", "q"), *calls[form], write_message(form, "user", "so?")]
    found = gateway.sent(form, messages, "prompted")
    assert [one["role"] for one in found] == ["user", "user"]
    assert found[-1] == user("so?")


@each_other
def test_several_texts_of_one_message_are_lines(gateway: Gateway, form: str) -> None:
    assert gateway.sent(form, [write_message(form, "user", "one", "two")]) == [user("one\ntwo")]


def test_texts_in_qwen_agents_own_format_are_joined_as_it_joins_them(gateway: Gateway) -> None:
    assert gateway.sent("qwen", [write_message("qwen", "user", "one", "two")]) == [user("onetwo")]


# -- messages that say nothing --------------------------------------------------------------

EMPTY: dict[str, list[Json]] = {
    "openai": [
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": []},
        {"role": "assistant", "content": [{"type": "text", "text": ""}]},
    ],
    "qwen": [{"role": "assistant", "content": ""}, {"role": "assistant", "content": "", "reasoning_content": ""}],
    "autogen": [
        {"type": "AssistantMessage", "source": "assistant", "content": ""},
        {"type": "TextMessage", "source": "assistant", "content": ""},
    ],
    "agentscope": [
        {"name": "a", "role": "assistant", "content": ""},
        {"name": "a", "role": "assistant", "content": []},
        {"name": "a", "role": "assistant", "content": None},
    ],
    "agentscope2": [
        {"name": "a", "role": "assistant", "content": []},
        {"name": "a", "role": "assistant", "content": [{"type": "text", "text": ""}]},
    ],
}


@each_case(("form", "empty"), [(form, one) for form, all_ in EMPTY.items() for one in all_])
@each_case("model", ["plain", "strict", "prompted", "marking", "no_end"])
def test_an_assistant_turn_that_says_nothing_is_not_sent(gateway: Gateway, form: str, empty: Json, model: str) -> None:
    messages = [write_message(form, "user", "q"), empty, write_message(form, "user", "so?")]
    expected = [user("q\n\nso?")] if model == "strict" else [user("q"), user("so?")]
    assert gateway.sent(form, messages, model) == expected
    assert gateway.sent(form, messages[:2], model) == [user("q")]


@pytest.mark.parametrize("form", sorted(set(EMPTY) - {"qwen"}))
def test_a_list_that_says_nothing_at_all_is_refused(gateway: Gateway, form: str) -> None:
    error = gateway.answer(form, [EMPTY[form][0]]).json["error"]
    assert (error["status"], error["param"]) == (422, "messages")


@pytest.mark.parametrize("form", ["openai", "qwen", "autogen", "agentscope"])
def test_what_a_user_left_empty_is_sent_empty(gateway: Gateway, form: str) -> None:
    messages = [
        write_message(form, "user", ""),
        write_message(form, "assistant", "a"),
        write_message(form, "user", "so?"),
    ]
    if form == "agentscope":
        messages[0]["content"] = ""
    assert gateway.sent(form, messages)[0] == user("")
