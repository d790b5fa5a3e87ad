"""The table of families."""

from app.profiles import Profile
from app.steps.tool_parsers import FAMILIES, tool_parser_stage

from tests.each_case import each_case


def test_the_profile_knows_every_family() -> None:
    schema = Profile.model_json_schema()["properties"]["text_tools"]
    assert set(schema["anyOf"][0]["enum"]) == set(FAMILIES)


@each_case("family", sorted(FAMILIES))
def test_without_tools_only_channels_are_read(family: str) -> None:
    stage = tool_parser_stage(family, (), "chat-1")
    assert (stage is None) == (family != "harmony")
