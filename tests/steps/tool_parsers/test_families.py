"""The table of families."""

from app.chat.events import Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.profiles import Profile
from app.steps.tool_parsers import FAMILIES, tool_parser_stage

from tests.each_case import each_case


def test_the_profile_knows_every_family() -> None:
    schema = Profile.model_json_schema()["properties"]["text_tools"]
    assert set(schema["anyOf"][0]["enum"]) == {*FAMILIES, "auto"}


@each_case("family", sorted(FAMILIES))
def test_without_tools_only_channels_are_read(family: str) -> None:
    text = '<|channel|>analysis<|message|>Hm<|end|><tool_call>{"name": "f", "arguments": {}}</tool_call>'
    found = tool_parser_stage(family, (), "chat-1").feed([TextDelta(text), Finish("stop")])
    assert not any(isinstance(event, ToolCallDelta) for event in found)
    assert any(isinstance(event, ReasoningDelta) for event in found) == (family == "harmony")
