"""Texts in which a stage finds nothing take a straight way, with the result of the general one."""

from collections.abc import Callable, Sequence

import pytest
from app.chat.events import Event, Extra, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.messages import Tool
from app.chat.stage import Stage
from app.steps.prompted_tools.nous import NousStage
from app.steps.prompted_tools.qwen import QwenStage
from app.steps.reasoning_parser import ReasoningStage, ThinkMode
from app.steps.tool_parsers.parser import ParseState
from hypothesis import given
from hypothesis import strategies as st

TAGS = ("<think>", "</think>")
QWEN_WORDS = ["✿FUNCTION✿", ": f", "✿ARGS✿", "✿RESULT✿", "✿RETURN✿", "✿", "{", "}", '{"a": 1}']
WORDS = ["a", " b", "c ", " ", "\n", "\r\n", "<", "<th", "ink>", "think>", "</", *TAGS, "<tool_call>", "</tool_call>"]


def split_texts(words: Sequence[str]) -> st.SearchStrategy[list[list[Event]]]:
    """Reads of texts, with a few other events among them."""
    others = [ReasoningDelta("r"), Extra({"a": 1}), ToolCallDelta(0, "{}", "c1", "f"), TextDelta("no", refusal=True)]
    text = st.lists(st.sampled_from(words), max_size=3).map("".join).map(TextDelta)
    events = st.lists(st.one_of(*[text] * 9, st.sampled_from(others)), max_size=6)
    return st.lists(events, max_size=6).map(lambda reads: [*reads, [Finish("stop")]])


def run(stage: Stage, reads: list[list[Event]]) -> list[list[Event]]:
    return [stage.feed(list(read)) for read in reads]


class _SearchingStage(ReasoningStage):
    def _feed_plain(self, event: TextDelta, out: list[Event]) -> bool:
        return False


MODES: tuple[ThinkMode, ...] = ("leading", "forced_open", "auto_close", "interleaved")


@pytest.mark.interpreted
@given(split_texts(WORDS))
def test_reasoning_is_found_in_the_same_places(reads: list[list[Event]]) -> None:
    for mode in MODES:
        for interrupt in (None, "<tool_call>"):
            found = run(ReasoningStage(mode, TAGS, interrupt), reads)
            assert found == run(_SearchingStage(mode, TAGS, interrupt), reads), (mode, interrupt)


TOOLS = [Tool("f", {"name": "f"})]


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: QwenStage("r", TOOLS, parallel=True), [*QWEN_WORDS, *WORDS[:6]]),
        (lambda: QwenStage("r", TOOLS), [*QWEN_WORDS, *WORDS[:6]]),
        (lambda: NousStage("r", TOOLS), [*WORDS, '{"name": "f", "arguments": {}}']),
    ],
)
def test_prose_beside_calls_is_the_same(make: Callable[[], Stage], words: list[str]) -> None:
    @given(split_texts(words))
    def compare(reads: list[list[Event]]) -> None:
        found = run(make(), reads)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ParseState, "is_prose", lambda state, text: False)
            assert _join(run(make(), reads)) == _join(found)

    compare()


def _join(reads: list[list[Event]]) -> list[list[Event]]:
    """Without empty texts, and with neighbouring texts of a read as one."""
    out: list[list[Event]] = []
    for read in reads:
        joined: list[Event] = []
        for event in read:
            last = joined[-1] if joined else None
            if type(event) is TextDelta and type(last) is TextDelta and event.refusal is last.refusal:
                joined[-1] = TextDelta(last.text + event.text, event.refusal)
            elif type(event) is not TextDelta or event.text:
                joined.append(event)
        out.append(joined)
    return out
