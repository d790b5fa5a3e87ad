"""`EventRuns` are the batches that they were made of, with the texts of neighbouring events in one list."""

from app.chat.event_runs import EventRuns, TextRun, join_texts
from app.chat.events import Event, Extra, Failed, Fault, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta
from hypothesis import given
from hypothesis import strategies as st

FINISH = Finish("tool_calls")
FAILED = Failed(Fault("overloaded", "too many", True))
PICTURE = MediaOutput("image", "data:,x")
BATCHES: list[list[Event]] = [
    [ReasoningDelta("a")],
    [ReasoningDelta("b"), ReasoningDelta("c"), TextDelta("d")],
    [TextDelta("e"), TextDelta("f", True)],
    [TextDelta("g", True)],
    [PICTURE, ToolCallDelta(0, "{", "id", "f"), ToolCallDelta(0, ""), ToolCallDelta(0, "1"), ToolCallDelta(0, "2")],
    [ToolCallDelta(1, "3"), ToolCallDelta(1, "4"), FINISH],
]


def runs_of(batches: list[list[Event]]) -> list[list[str] | Event]:
    return [run.texts if isinstance(run, TextRun) else run for run in EventRuns(batches).runs]


def test_neighbouring_events_that_differ_in_their_text_are_one_run() -> None:
    head: list[list[str] | Event] = [["a", "b", "c"], ["d", "e"], ["f", "g"], PICTURE]
    calls: list[list[str] | Event] = [ToolCallDelta(0, "{", "id", "f"), ToolCallDelta(0, ""), ["1", "2"], ["3", "4"]]
    assert runs_of(BATCHES) == [*head, *calls, FINISH]


def test_they_are_a_sequence_of_the_batches() -> None:
    runs = EventRuns(BATCHES)
    assert list(runs) == list(runs) == BATCHES
    assert len(runs) == 6 and runs[1] == BATCHES[1] and runs[-1] == BATCHES[-1]
    assert runs[:2] == BATCHES[:2] and runs[:-1] == BATCHES[:-1]


def test_the_end_of_the_reply_is_known() -> None:
    assert EventRuns(BATCHES).finish is FINISH
    assert EventRuns(BATCHES[:-1]).finish is None


def test_batches_that_must_stay_as_they_are_divide_the_others() -> None:
    extra: list[Event] = [TextDelta("x"), Extra({"k": 1})]
    failed: list[Event] = [TextDelta("y"), FAILED]
    parts = join_texts([*BATCHES[:2], [], extra, BATCHES[2], failed])
    assert [type(part) for part in parts] == [EventRuns, list, EventRuns, list]
    assert [list(part) for part in parts] == [BATCHES[:2], [[], extra], [BATCHES[2]], [failed]]


texts = st.text("ab", max_size=2)
events = st.one_of(
    st.builds(TextDelta, texts, st.booleans()),
    st.builds(ReasoningDelta, texts),
    st.builds(ToolCallDelta, st.integers(0, 2), texts, st.sampled_from(["", "id"]), st.sampled_from(["", "f"])),
    st.sampled_from([PICTURE, FINISH, FAILED, Extra({"k": 1})]),
)


@given(st.lists(st.lists(events, max_size=5), max_size=8))
def test_no_event_changes_its_place(batches: list[list[Event]]) -> None:
    assert [batch for part in join_texts(batches) for batch in part] == batches
