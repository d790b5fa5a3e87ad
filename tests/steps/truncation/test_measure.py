"""The number of tokens of a conversation."""

import pytest
from app.chat.messages import (
    ChatRequest,
    Media,
    Part,
    Reasoning,
    Text,
    TokenCounter,
    ToolCall,
    ToolResult,
)
from app.runtime.token_counting import EstimatingCounter
from app.steps.truncation.measure import TokenMeasure
from hypothesis import given
from hypothesis import strategies as st

from tests.steps.conversations import conversations
from tests.steps.recorded_truncations import MEDIA
from tests.steps.word_counter import Words


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        (Text("a b"), 2),
        (Reasoning("a b c"), 3),
        (ToolCall("f", "a b"), 3),
        (ToolResult((Text("a b"), Media("image", ("x",)))), 10),
        (Media("image", ("x",)), 8),
        (Media("video", ("x", "y"), frames=True), 16),
        (Media("audio", ("x",)), 0),
    ],
)
def test_everything_that_is_sent_counts(part: Part, tokens: int) -> None:
    assert TokenMeasure(Words(), MEDIA).count_part(part) == tokens


def size(request: ChatRequest, counter: TokenCounter) -> int:
    measure = TokenMeasure(counter, MEDIA)
    return sum(map(measure.count_message, request.messages)) + sum(map(measure.count_tool, request.tools))


@given(conversations(), st.sampled_from([Words(), EstimatingCounter()]))
def test_the_limit_from_above_is_one(request: ChatRequest, counter: TokenCounter) -> None:
    assert size(request, counter) <= TokenMeasure(counter, MEDIA).upper_bound(request)


def test_a_long_text_is_counted_once() -> None:
    class Counting(Words):
        counted = 0

        def count(self, text: str) -> int:
            self.counted += 1
            return super().count(text)

    counter = Counting()
    measure = TokenMeasure(counter, MEDIA)
    assert [measure.count_part(Text("a" + " a" * 49_999)) for _ in range(3)] == [50_000] * 3
    assert counter.counted == 1
