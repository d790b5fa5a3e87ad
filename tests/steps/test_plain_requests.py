"""A request with plain messages is prepared without the steps that have nothing to do for it, with the same result."""

from typing import Any

from app.chat.messages import ChatRequest, Message, Text, Tool
from app.errors import ParleyError
from app.formats.plain import parse_plain_messages
from app.profiles import KINDS, Profile
from app.steps.pipeline import prepare_request, reply_stages, reply_traits
from app.upstream import request as upstream_request
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.steps.word_counter import Words

PROFILES = [
    *KINDS.values(),
    Profile(native_tools=False),
    Profile(native_tools=False, fncall_prompt_type="qwen"),
    Profile(default_system={"en": "Be brief.", "zh": "请简短。"}),
    Profile(system="leading"),
    Profile(system="merged"),
    Profile(system="none"),
    Profile(alternate=True),
    Profile(assistant_after_tool=True),
    Profile(max_input_tokens=3),
    Profile(text_parts=True),
    Profile(continuation="refuse"),
    Profile(continuation="prefix"),
    Profile(names="all", text_tools="hermes", stream="as_asked", lacks=("top_k",)),
]
TOOL = Tool("f", {"name": "f", "parameters": {"type": "object", "properties": {}}})
contents = st.sampled_from(["Hi", " ", "é", "你好", "one two three four", "<think>a</think>b"])
raw_messages = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "user", "assistant", "system"]), "content": contents}),
    min_size=1,
    max_size=5,
)
params = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.just(0.5),
        "top_k": st.just(4),
        "stop": st.sampled_from(["x", ["x", "y"], ["x"] * 17]),
        "use_raw_api": st.booleans(),
        "max_input_tokens": st.sampled_from([2, 100]),
        "lang": st.sampled_from(["en", "zh"]),
        "function_choice": st.sampled_from(["none", "auto", "required", "f", "g"]),
        "repair_arguments": st.booleans(),
        "enable_thinking": st.booleans(),
    },
)


def prepare(request: ChatRequest, profile: Profile) -> Any:
    """Everything that a request becomes: its body, its warnings, and how its reply is read; or its error."""
    try:
        prepared, warnings = prepare_request(request, profile, Words(), {})
        body, more = upstream_request.build(prepared, "m", profile)
        stages = [type(stage) for stage in reply_stages(request, profile, "r")]
        return body, list(body), [*warnings, *more], stages, reply_traits(request, profile)
    except ParleyError as error:
        return error.to_dict("r")


@given(raw_messages, params, st.booleans(), st.booleans())
def test_plain_requests_are_prepared_as_by_all_steps(
    raw: list[Any], given_params: dict[str, Any], with_tool: bool, stream: bool
) -> None:
    messages = parse_plain_messages(raw)
    if messages is None:
        return
    plain = ChatRequest("m", messages, (TOOL,) if with_tool else (), given_params, stream=stream, plain=True)
    for profile in PROFILES:
        assert prepare(plain, profile) == prepare(replace(plain, plain=False), profile), profile


def test_a_plain_request_to_a_server_without_demands_passes_all_steps_as_it_is() -> None:
    request = ChatRequest("m", (Message("user", (Text("Hi"),), path="messages[0]"),), plain=True)
    assert prepare_request(request, Profile(), Words(), {})[0] is request


def test_a_plain_request_for_json_that_the_server_does_not_enforce_is_rewritten() -> None:
    params = {"response_format": {"type": "json_object"}}
    request = ChatRequest("m", (Message("user", (Text("Hi"),), path="messages[0]"),), params=params, plain=True)
    assert prepare_request(request, Profile(response_formats=("json_object",)), Words(), {})[0] is request
    prepared, warnings = prepare_request(request, Profile(response_formats=()), Words(), {})
    assert prepared.params["response_format"] is None
    assert prepared.messages[0].role == "system"
    assert "not sent" in warnings[0]
