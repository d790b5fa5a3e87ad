"""What AgentScope's own agents hold after a talk is sent as they sent it, and passes through every format."""

from typing import Any

from app.formats import FORMATS

from tests.conversations.sample_conversations import NO_NOTES, convert
from tests.each_case import each_case
from tests.formats.agentscope.cases import Json, load, sent
from tests.formats.agentscope.recorded_requests import OPENAI

AGENTS = load("agentscope/agents")
each = each_case("name", AGENTS)


@each
def test_a_talk_is_sent_as_the_agent_sent_it(name: str) -> None:
    golden = AGENTS[name]
    ours = sent(FORMATS[golden["format"]], golden["messages"], OPENAI)
    assert isinstance(ours, list), ours
    assert ours[: len(golden["request"])] == golden["request"]
    assert [one["role"] for one in ours[len(golden["request"]) :]] == ["assistant"]


@each
@each_case("to", FORMATS)
def test_a_talk_comes_back_from_every_format(name: str, to: str) -> None:
    golden: Json = AGENTS[name]
    there, _ = convert(golden["format"], to, golden["messages"])
    ours: Any = sent(FORMATS[to], there, OPENAI)
    theirs: Any = sent(FORMATS[golden["format"]], golden["messages"], OPENAI)
    if to in ("anthropic", "responses", "gemini"):  # they have no names of senders
        theirs = [{key: one[key] for key in one if key != "name" or one["role"] == "tool"} for one in theirs]
    assert ours == theirs
    if to not in NO_NOTES:
        assert convert(to, golden["format"], there)[0] == golden["messages"]
