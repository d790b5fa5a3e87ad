"""Any text in any pieces: the same events, nothing lost, nothing taken back."""

import json
from collections.abc import Callable
from functools import partial

from app.chat.events import Event, Extra, Failed, Fault, Finish, TextDelta, ToolCallDelta
from app.chat.stage import Stage
from app.steps.prompted_tools import NousStage, QwenStage
from app.steps.reasoning_parser import ReasoningStage
from app.steps.tool_parsers import FAMILIES
from app.steps.tool_parsers.stage import CallStage
from hypothesis import example, given
from hypothesis import strategies as st

from tests.effort import examples
from tests.steps.stage_runner import STOP, Reply, joined
from tests.steps.tool_parsers.sample_texts import CUTS, TEXTS, TOOLS

EMPTY = "a block of tool calls without a call is left out"
LEFT_OUT = "a token of the model's chat template at the end of a text is left out"
ENDS: list[Event] = [STOP, Finish("length"), Failed(Fault("timeout", "", True))]

STAGES: dict[str, Callable[[], Stage]] = {
    **{family: partial(CallStage, "chat-1", TOOLS, parser) for family, parser in FAMILIES.items()},
    "nous": lambda: NousStage("chat-1", TOOLS),
    "nous-thoughts": lambda: NousStage("chat-1", TOOLS, thought_in_content=True, code=True),
    "qwen": lambda: QwenStage("chat-1", TOOLS),
    "qwen-forced": lambda: QwenStage("chat-1", TOOLS, parallel=True, forced="f"),
    "think": lambda: ReasoningStage("forced_open", ("<think>", "</think>"), "<tool_call>"),
    "think-interleaved": lambda: ReasoningStage("interleaved", ("<think>", "</think>"), "<tool_call>"),
}

KEEP_TEXT = sorted(set(STAGES) - {"harmony", "think", "think-interleaved", "qwen", "qwen-forced"})


def events(stage: Stage, text: str, cuts: list[int], end: Event = STOP) -> list[Event]:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    out: list[Event] = []
    for start, stop in zip(edges, edges[1:], strict=False):
        out += stage.feed([TextDelta(text[start:stop])])
    return out + stage.feed([end])


def settled(found: list[Event]) -> list[Event]:
    """Joined, with warnings behind the text that they are about."""
    warnings = [event for event in found if isinstance(event, Extra)]
    return joined([event for event in found if not isinstance(event, Extra)]) + warnings


@examples(20)
@given(text=TEXTS, cuts=CUTS, end=st.sampled_from(ENDS))
def test_pieces_give_what_the_whole_gives(text: str, cuts: list[int], end: Event) -> None:
    for name, make in STAGES.items():
        whole = settled(events(make(), text, [], end))
        assert settled(events(make(), text, cuts, end)) == whole, name
        assert settled(events(make(), text, list(range(len(text))), end)) == whole, name


@examples(20)
@given(text=TEXTS, cuts=CUTS)
def test_every_call_has_a_name_an_id_and_arguments(text: str, cuts: list[int]) -> None:
    for name in STAGES:
        check_calls(name, text, cuts)


def check_calls(name: str, text: str, cuts: list[int]) -> None:
    reply = Reply([STAGES[name]()])
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    for start, stop in zip(edges, edges[1:], strict=False):
        reply.feed([TextDelta(text[start:stop])])
    reply.feed([STOP])
    calls = [message for message in reply.messages() if "function_call" in message]
    assert all(call["function_call"]["name"] and call["function_call"]["arguments"] for call in calls), name
    assert len({call["extra"]["function_id"] for call in calls} - {""}) == len(calls), name
    assert reply.reason == ("tool_calls" if calls else "stop"), name


@examples(20)
@example(text="[]")
@given(text=TEXTS)
def test_text_without_a_call_comes_out_as_it_went_in(text: str) -> None:
    for name in KEEP_TEXT:
        given = events(STAGES[name](), text, [3, 9, 20])
        if Extra({"warning": EMPTY}) in given or LEFT_OUT in getattr(given[-1], "warnings", ()):
            continue
        found = joined([event for event in given if not isinstance(event, Extra)])
        if not any(isinstance(event, ToolCallDelta) for event in found):
            assert "".join(event.text for event in found if isinstance(event, TextDelta)) == text, name


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@examples(20)
@given(values=st.dictionaries(st.text(max_size=8), VALUES, max_size=4), indent=st.none() | st.just(2), cuts=CUTS)
def test_json_arguments_come_out_letter_for_letter(
    values: dict[str, object], indent: int | None, cuts: list[int]
) -> None:
    raw = json.dumps(values, ensure_ascii=False, indent=indent)
    text = f'<tool_call>\n{{"name": "f", "arguments": {raw}}}\n</tool_call>'
    found = joined(events(NousStage("chat-1", TOOLS), text, cuts))
    call = found[0]
    assert isinstance(call, ToolCallDelta)
    assert call.arguments == raw
