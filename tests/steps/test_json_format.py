"""JSON that a server does not enforce is requested in the prompt."""

from typing import Any

from app.chat.messages import ChatRequest, Tool
from app.profiles import KINDS, Profile
from app.steps.json_format import adapt_response_format, is_enforced
from msgspec.structs import replace

from tests.each_case import each_case
from tests.steps.conversations import conversation, texts

SCHEMA = {"type": "object", "properties": {"城": {"type": "string"}}}
OBJECT = {"type": "json_object"}
WITH_SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
USER = {"role": "user", "content": "q"}


def request_of(response_format: Any, *messages: dict[str, Any]) -> ChatRequest:
    return conversation(*(messages or (USER,)), params={"response_format": response_format, "seed": 1})


@each_case(
    ("formats", "given", "sent", "prompted", "warned"),
    [
        (("json_object", "json_schema"), WITH_SCHEMA, WITH_SCHEMA, False, ""),
        (("json_object",), OBJECT, OBJECT, False, ""),
        (("json_object",), WITH_SCHEMA, OBJECT, True, "sent as json_object"),
        (("json_schema",), WITH_SCHEMA, WITH_SCHEMA, False, ""),
        (("json_schema",), OBJECT, ..., False, ""),
        ((), WITH_SCHEMA, None, True, "not sent"),
        ((), OBJECT, None, True, "not sent"),
        ((), {"type": "text"}, {"type": "text"}, False, ""),
        ((), {"type": "json_schema"}, None, True, "not sent"),
        ((), None, None, False, ""),
    ],
)
def test_the_nearest_format_is_sent_and_the_prompt_says_the_rest(
    formats: tuple[Any, ...], given: Any, sent: Any, prompted: bool, warned: str
) -> None:
    profile, request = Profile(response_formats=formats), request_of(given)
    got, warnings = adapt_response_format(request, profile, "en")
    if sent is ...:
        sent = {"type": "json_schema", "json_schema": {"name": "object", "schema": {"type": "object"}}}
    assert got.params == {"response_format": sent, "seed": 1}
    assert is_enforced(request, profile) is (given == sent)
    assert len(got.messages) == 1 + prompted
    assert [text for text in warnings if warned not in text] == []
    assert bool(warnings) is bool(warned)


@each_case(("beside", "tools", "sent"), [(True, True, True), (False, False, True), (False, True, False)])
def test_a_format_that_the_server_does_not_take_beside_tools_is_asked_for_in_the_prompt(
    beside: bool, tools: bool, sent: bool
) -> None:
    profile, request = Profile(formats_beside_tools=beside), request_of(WITH_SCHEMA)
    if tools:
        request = replace(request, tools=(Tool("f", {"type": "function", "function": {"name": "f"}}),))
    got, warnings = adapt_response_format(request, profile, "en")
    assert got.params["response_format"] == (WITH_SCHEMA if sent else None)
    assert len(got.messages) == (1 if sent else 2)
    told = "response_format was not sent: this model's server does not enforce json_schema beside tools"
    assert [text.partition(",")[0].removeprefix("generate_cfg.") for text in warnings] == ([] if sent else [told])


def test_the_schema_is_in_the_system_message_in_the_language_of_the_conversation() -> None:
    for language, word in (("en", "Reply with JSON"), ("zh", "JSON Schema 的 JSON")):
        system = {"role": "system", "content": "Be brief."}
        got, _ = adapt_response_format(request_of(WITH_SCHEMA, system, USER), KINDS["deepseek"], language)  # type: ignore[arg-type]  # one of the two
        [(role, text), user] = texts(got)
        assert (role, user) == ("system", ("user", "q"))
        assert text.startswith("Be brief.\n\n")
        assert word in text
        assert '{"type": "object", "properties": {"城": {"type": "string"}}}' in text


@each_case(
    ("profile", "params", "sent"),
    [
        (Profile(formats_while_thinking="explain"), {}, True),
        (Profile(formats_while_thinking="explain", thinks_by_default=True), {}, False),
        (Profile(formats_while_thinking="explain", thinks_by_default=True), {"enable_thinking": False}, True),
        (Profile(formats_while_thinking="explain"), {"enable_thinking": True}, False),
        (Profile(formats_while_thinking="explain"), {"extra_body": {"enable_thinking": True}}, False),
        (Profile(formats_while_thinking="explain"), {"reasoning_effort": "high"}, False),
        (Profile(formats_while_thinking="thinking_off"), {"enable_thinking": True}, True),
        (Profile(formats_while_thinking="thinking_off", thinking_switch="none"), {"enable_thinking": True}, False),
        (Profile(), {"enable_thinking": True}, True),
        (KINDS["dashscope"], {"enable_thinking": True}, False),
        (KINDS["lmstudio"], {"enable_thinking": True}, False),
        (KINDS["vllm"], {"enable_thinking": True}, True),
    ],
)
def test_a_format_that_the_server_does_not_take_while_the_model_thinks_is_asked_for_in_the_prompt(
    profile: Profile, params: dict[str, Any], sent: bool
) -> None:
    request = conversation(USER, params={"response_format": WITH_SCHEMA, **params})
    got, warnings = adapt_response_format(request, profile, "en")
    assert got.params["response_format"] == (WITH_SCHEMA if sent else None)
    assert any("城" in text for _, text in texts(got)) is not sent
    assert is_enforced(request, profile) is sent
    assert [text.split(" enforce ")[1] for text in warnings] == (
        [] if sent else ["json_schema while the model thinks, so the prompt asks for it"]
    )


def test_a_schema_beside_json_object_is_passed_on_or_asked_for() -> None:
    request = request_of({"type": "json_object", "schema": SCHEMA})
    got, _ = adapt_response_format(request, Profile(response_formats=("json_schema",)), "en")
    assert got.params["response_format"]["json_schema"]["schema"] == SCHEMA
    got, _ = adapt_response_format(request, Profile(response_formats=()), "en")
    assert "城" in texts(got)[0][1]
