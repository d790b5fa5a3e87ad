"""What writing a conversation of very many messages costs."""

from collections.abc import Callable

import pytest
from app.chat.messages import Message, Text, ToolCall, ToolResult
from app.formats import FORMATS
from app.formats.agentscope.replay import UniqueIds
from app.formats.base import DEFAULT_OPTIONS
from msgspec.structs import replace

from tests.each_case import each_case
from tests.linear_time import linear

Q = Message("user", (Text("q"),))


def equal_questions(count: int) -> list[Message]:
    return [Q] * count


def calls_and_results(count: int) -> list[Message]:
    calls = [Message("assistant", (ToolCall("f", "{}", str(number)),)) for number in range(count)]
    return [*calls, *(Message("tool", (ToolResult((), "f", str(number)),)) for number in range(count))]


def results_behind_questions(count: int) -> list[Message]:
    calls, results = calls_and_results(count)[:count], calls_and_results(count)[count:]
    return [*calls, *(message for result in results for message in (Q, result))]


@pytest.mark.many_cases
@pytest.mark.timeout(400)
@each_case("name", FORMATS)
@each_case("make", [equal_questions, calls_and_results, results_behind_questions])
def test_a_long_conversation_is_written_in_linear_time(name: str, make: Callable[[int], list[Message]]) -> None:
    assert linear(lambda count: FORMATS[name].write(make(count), DEFAULT_OPTIONS), 1000)


def test_a_repeated_id_gets_the_first_number_that_is_free() -> None:
    ids, found = UniqueIds(), list[str]()
    for id_ in ("a", "a_3", "a", "a", "b", "a"):
        found.append(ids.find(id_))
        assert ids.find(id_) == found[-1], "what is only asked for is not used"
        ids.add(found[-1])
    assert found == ["a", "a_3", "a_2", "a_4", "b", "a_5"]


def test_every_result_that_is_moved_is_named() -> None:
    calls, results = calls_and_results(2)[:2], calls_and_results(2)[2:]
    places = [replace(message, path=f"messages[{at}]") for at, message in enumerate((*calls, Q, *results))]
    written = FORMATS["agentscope2"].write(places, DEFAULT_OPTIONS)
    assert [len(item["content"]) for item in written.messages] == [4, 1]
    assert [loss.path for loss in written.losses] == ["messages[3]", "messages[4]"]


def test_a_result_without_an_id_is_moved_behind_the_last_run_that_called_its_function() -> None:
    f, g = (Message("assistant", (ToolCall(name, "{}"),)) for name in "fg")
    results = [Message("tool", (ToolResult((Text(name or "any"),), name),)) for name in ("f", None, "h")]
    written = FORMATS["agentscope2"].write([f, Q, g, Q, *results], DEFAULT_OPTIONS)
    shown = [
        [block.get("output") or block.get("name") or block["text"] for block in item["content"]]
        for item in written.messages
    ]
    assert shown == [["f", "f"], ["q"], ["g", "any"], ["q"], ["h"]]
