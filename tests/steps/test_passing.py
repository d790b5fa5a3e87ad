"""The server's own events go on while the stages give back what these have brought."""

from collections.abc import Callable

from app.chat.events import (
    Event,
    Extra,
    Failed,
    Fault,
    Finish,
    Passed,
    PassedEnd,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from app.steps.passing import PassingStage
from app.steps.repair import RepairStage

from tests.each_case import each_case

END = PassedEnd()
DONE = Finish("stop")


def own(name: str = "content_block_delta", data: str = "{}") -> Passed:
    return Passed(name, data)


class Rule:
    """A stage that does what a function says, event by event."""

    def __init__(self, rule: Callable[[Event], list[Event]]) -> None:
        self._rule = rule

    def feed(self, events: list[Event]) -> list[Event]:
        return [given for event in events for given in self._rule(event)]


class Holder:
    """A stage that holds texts until another event comes, and gives them as one, changed by a function."""

    def __init__(self, change: Callable[[str], str] = str) -> None:
        self._change = change
        self._text = ""

    def feed(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if type(event) is TextDelta:
                self._text += event.text
                continue
            if self._text:
                out.append(TextDelta(self._change(self._text)))
                self._text = ""
            out.append(event)
        return out


def same(event: Event) -> list[Event]:
    return [event]


def feed(stage: PassingStage, *reads: list[Event]) -> list[list[Event]]:
    return [stage.feed(events) for events in reads]


def test_events_go_on_at_once_while_nothing_changes() -> None:
    reads: list[list[Event]] = [
        [own("message_start")],
        [own(), TextDelta("a")],
        [own(), TextDelta("b"), own(), ToolCallDelta(0, "{}", "c", "f"), own("x")],
        [],
        [own("message_stop"), DONE],
    ]
    assert feed(PassingStage([Rule(same)]), *reads) == reads


def test_an_opening_event_waits_for_what_follows_it() -> None:
    stage = PassingStage([Rule(same)])
    start, part = own("response.output_item.added"), own("response.content_part.added")
    assert feed(stage, [start], [part], [own("ping")]) == [[], [], []]
    assert stage.feed([own(), TextDelta("a")]) == [start, part, own("ping"), own(), TextDelta("a")]
    other, search = own("response.output_item.added"), own("response.web_search_call.in_progress")
    assert stage.feed([other]) == []
    assert stage.feed([search]) == [other, search], "what the gateway does not read shows that the item is used"
    assert stage.feed([start]) == []
    assert stage.feed([other]) == [start], "a further item shows that the one before it is complete"


def test_a_text_that_is_held_makes_all_behind_it_wait() -> None:
    stage = PassingStage([Holder()])
    assert feed(stage, [own(), TextDelta("a")], [own("x")], [own(), TextDelta("b")]) == [[], [], []]
    out = stage.feed([own("message_stop"), DONE])
    assert out == [own(), TextDelta("a"), own("x"), own(), TextDelta("b"), own("message_stop"), DONE]


def test_what_fits_of_a_changed_text_goes_on_and_the_rest_is_written_anew() -> None:
    stage = PassingStage([Holder(lambda text: text.replace("c", "X"))])
    feed(stage, [own(data="1"), TextDelta("ab")], [own(data="2"), TextDelta("bc")], [own(data="3"), TextDelta("d")])
    out = stage.feed([own("message_stop"), DONE])
    assert out == [own(data="1"), TextDelta("ab"), END, TextDelta("bXd"), DONE]
    assert stage.feed([own(), TextDelta("late"), DONE]) == [TextDelta("late"), DONE]


@each_case(
    "change",
    [
        lambda event: [] if type(event) is TextDelta else [event],
        lambda event: [ReasoningDelta(event.text)] if type(event) is TextDelta else [event],
        lambda event: [TextDelta(event.text, refusal=True)] if type(event) is TextDelta else [event],
        lambda event: [event, TextDelta("more")] if type(event) is TextDelta else [event],
        lambda event: [Finish("length")] if type(event) is Finish else [event],
        lambda event: [Finish("stop", stopped_by="a")] if type(event) is Finish else [event],
        lambda event: [Extra(dict(event.fields))] if type(event) is Extra else [event],
        lambda event: [ToolCallDelta(0, event.arguments, event.id, "g")] if type(event) is ToolCallDelta else [event],
    ],
)
def test_any_other_change_ends_the_servers_own_events(change: Callable[[Event], list[Event]]) -> None:
    reads: list[list[Event]] = [
        [own(), TextDelta("a")],
        [own(), Extra({"x": True})],
        [own(), ToolCallDelta(0, "", "c", "f")],
        [own("message_delta")],
        [own("message_stop"), DONE],
    ]
    given = [event for read in reads for old in read if type(old) is not Passed for event in change(old)]
    out = [event for events in feed(PassingStage([Rule(change)]), *reads) for event in events]
    assert END in out and own("message_delta") not in out
    assert [event for event in out if type(event) is not Passed and event != END] == given


def test_what_an_end_says_beside_its_reason_is_no_change() -> None:
    warned = Finish("stop", warnings=("w",), cacheable=False)
    stage = PassingStage([Rule(lambda event: [warned] if type(event) is Finish else [event])])
    assert feed(stage, [own("message_delta")], [own("message_stop"), DONE]) == [
        [],
        [own("message_delta"), own("message_stop"), warned],
    ]


def test_arguments_that_are_held_and_not_repaired_go_on_as_they_came() -> None:
    reads: list[list[Event]] = [
        [own("content_block_start")],
        [own(data="1"), ToolCallDelta(0, '{"a"', "c", "f")],
        [own(data="2"), ToolCallDelta(0, ": 1}")],
        [own(data="3"), ToolCallDelta(1, "{}", "d", "g")],
        [own(data="4"), DONE],
    ]
    out = feed(PassingStage([RepairStage()]), *reads)
    assert out[:-1] == [[]] * 4
    assert out[-1] == [event for read in reads for event in read]


def test_arguments_that_are_repaired_are_written_anew() -> None:
    stage = PassingStage([RepairStage()])
    feed(stage, [own("content_block_start")], [own(), ToolCallDelta(0, "{'a': 1", "c", "f")])
    out = stage.feed([own("message_stop"), DONE])
    assert out[:3] == [END, ToolCallDelta(0, "", "c", "f"), ToolCallDelta(0, '{"a": 1}')]


def test_a_failure_gives_back_what_is_held() -> None:
    failed = Failed(Fault("timeout", "late", True))
    stage = PassingStage([Holder()])
    stage.feed([own(), TextDelta("a")])
    assert stage.feed([failed]) == [own(), TextDelta("a"), failed]


def test_what_a_stage_leaves_out_until_the_end_ends_the_servers_own_events() -> None:
    stage = PassingStage([Rule(lambda event: [] if type(event) is ToolCallDelta else [event])])
    assert stage.feed([own(), ToolCallDelta(0, "{}", "c", "f")]) == []
    assert stage.feed([own("message_stop"), DONE]) == [END, DONE]


def test_events_that_end_at_the_server_end_here_with_what_waits() -> None:
    stage = PassingStage([Holder()])
    stage.feed([own(), TextDelta("a")])
    assert stage.feed([own("x"), END, TextDelta("b"), DONE]) == [END, TextDelta("ab"), DONE]
    stage = PassingStage([Holder()])
    stage.feed([own(), TextDelta("a")])
    ends: list[Event] = [own(), ReasoningDelta("r"), END, TextDelta("b")]
    assert feed(stage, ends, [DONE]) == [
        [own(), TextDelta("a"), own(), ReasoningDelta("r"), END],
        [TextDelta("b"), DONE],
    ]


def test_empty_texts_are_nothing_that_must_come_back() -> None:
    stage = PassingStage([Rule(lambda event: [] if event == TextDelta("") else [event])])
    assert stage.feed([own(), TextDelta("")]) == [own(), TextDelta("")]


def test_a_text_that_stages_cut_into_pieces_is_no_change() -> None:
    def cut(event: Event) -> list[Event]:
        return [TextDelta(char) for char in event.text] if type(event) is TextDelta else [event]

    reads: list[list[Event]] = [[own(), TextDelta("abc")], [own("message_stop"), DONE]]
    assert feed(PassingStage([Rule(cut)]), *reads) == reads


def test_an_event_that_brings_nothing_behind_a_held_text_goes_on_with_it() -> None:
    stage = PassingStage([Holder()])
    assert feed(stage, [own(), TextDelta("a")], [own("ping")]) == [[], []]
    assert stage.feed([own("message_stop"), DONE]) == [own(), TextDelta("a"), own("ping"), own("message_stop"), DONE]


def test_the_servers_own_events_end_once() -> None:
    stage = PassingStage([Rule(lambda event: [TextDelta("b")] if type(event) is TextDelta else [event])])
    assert stage.feed([own(), TextDelta("a"), END, DONE]) == [END, TextDelta("b"), DONE]


@each_case("name", ["content_block_start", "response.output_item.added", "response.reasoning_summary_part.added"])
def test_what_was_opened_goes_on_where_the_servers_events_end(name: str) -> None:
    stage, opened, more = PassingStage([Rule(same)]), own(name), TextDelta("a")
    assert stage.feed([opened]) == []
    assert stage.feed([END, more]) == [opened, END, more]
    assert stage.feed([more]) == [more]


@each_case(("kind", "more"), [("text", ReasoningDelta("a")), ("thinking", TextDelta("a"))])
def test_what_was_opened_for_another_kind_of_text_is_dropped_where_the_servers_events_end(
    kind: str, more: Event
) -> None:
    stage = PassingStage([Rule(same)])
    opened = own("content_block_start", f'{{"index": 0, "content_block": {{"signature": "", "type": "{kind}"}}}}')
    assert stage.feed([opened, END, more]) == [END, more]


def test_the_reason_of_an_end_does_not_go_on_where_the_servers_events_end() -> None:
    stage = PassingStage([Rule(same)])
    assert stage.feed([own("message_delta")]) == []
    assert stage.feed([END, DONE]) == [END, DONE]


def test_what_was_opened_is_dropped_with_a_text_that_a_stage_holds_where_the_servers_events_end() -> None:
    stage, call = PassingStage([Holder()]), ToolCallDelta(0, "", "c", "f")
    assert stage.feed([own("content_block_start"), own(), TextDelta("a")]) == []
    assert stage.feed([END, call]) == [END, TextDelta("a"), call]
