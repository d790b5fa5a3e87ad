"""What a reply shows of a model, and the profile fields that make the gateway read it."""

from typing import Any

from app.chat.events import Event, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.doctor.probes import judge_reasoning, judge_tools
from app.profiles import Profile

from tests.each_case import each_case
from tests.steps.sample_calls import WRITTEN

PLAIN = Profile()
SAME = {"deepseek_v31": "deepseek_v3", "mistral_args": "mistral_json"}
"""Families that are read in the same way as another one."""


def reply(text: str, reason: Any = "stop") -> list[Event]:
    """The events of a reply whose text arrives in two parts."""
    half = len(text) // 2
    return [TextDelta(text[:half]), TextDelta(text[half:]), Finish(reason)]


@each_case("family", sorted(WRITTEN.keys() - {"nous", "qwen"}))
def test_a_call_in_the_text_suggests_the_family_that_reads_it(family: str) -> None:
    text = "Let me check.\n" * (family not in ("pythonic", "llama_json", "harmony")) + WRITTEN[family](
        {"city": "Paris"}
    )
    verdict = judge_tools(reply(text), PLAIN, "f")
    assert (verdict.good, verdict.fields) == (False, {"text_tools": SAME.get(family, family)})
    assert judge_tools(reply(text), Profile.model_validate({"text_tools": family}), "f").good


def test_a_call_after_reasoning_in_the_text_is_found() -> None:
    call = WRITTEN["hermes"]({"city": "Paris"})
    assert judge_tools(reply(f"<think>I call <tool_call></think>{call}"), PLAIN, "f").fields == {"text_tools": "hermes"}
    assert judge_tools(reply(f"I call it.</think>\n{call}"), PLAIN, "f").fields == {"text_tools": "hermes"}


def test_calls_of_the_server_are_good_and_no_call_is_a_warning() -> None:
    called = judge_tools([ToolCallDelta(0, "{}", "c", "f"), Finish("tool_calls")], PLAIN, "f")
    assert (called.good, called.advice) == (True, "")
    silent = judge_tools(reply("I cannot know the weather. [call f(city='Paris')]"), PLAIN, "f")
    assert (silent.good, silent.fields) == (True, {})
    assert "native_tools = false" in silent.advice


@each_case(
    ("text", "fields"),
    [
        ("Hm.</think>42", {"inline_think": "forced_open"}),
        ("First <think>Hm.</think>42", {"inline_think": "interleaved"}),
        ("<think>a</think>b<think>c</think>d", {"inline_think": "interleaved"}),
        ("<think>a</think>b<think>c", {"inline_think": "interleaved"}),
        ("<seed:think>Hm.</seed:think>42", {"think_tags": ["<seed:think>", "</seed:think>"]}),
        ("<seed:think>Hm.", {"think_tags": ["<seed:think>", "</seed:think>"]}),
        ("Hm.[/THINK]42", {"inline_think": "forced_open", "think_tags": ["[THINK]", "[/THINK]"]}),
        ("<|channel|>analysis<|message|>Hm.<|end|>", {"text_tools": "harmony"}),
    ],
)
def test_reasoning_in_the_content_suggests_how_to_read_it(text: str, fields: dict[str, Any]) -> None:
    verdict = judge_reasoning(reply(text), PLAIN)
    assert (verdict.good, verdict.fields) == (False, fields)
    corrected = Profile.model_validate(PLAIN.model_dump() | fields)
    assert judge_reasoning(reply(text), corrected).good


@each_case("text", ["<think>Hm.</think>42", "\n<think>Hm.", "42", ""])
def test_reasoning_that_the_gateway_reads_and_none_at_all_are_good(text: str) -> None:
    verdict = judge_reasoning(reply(text), PLAIN)
    assert (verdict.good, verdict.advice, verdict.fields) == (True, "", {})


def test_a_field_of_its_own_is_good_whatever_the_content_is() -> None:
    assert judge_reasoning([ReasoningDelta("Hm."), TextDelta("</think>42"), Finish("stop")], PLAIN).good


def test_reasoning_is_not_read_where_the_profile_says_that_there_is_none() -> None:
    verdict = judge_reasoning(reply("<think>Hm.</think>42"), Profile(inline_think="off"))
    assert verdict.fields == {"inline_think": "leading"}
