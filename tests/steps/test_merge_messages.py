"""Assistant turns that a server takes as empty."""

from typing import Any

from app.profiles import KINDS, Profile
from app.steps.merge_messages import drop_thought_only_turns

from tests.each_case import each_case
from tests.steps.conversations import conversation

Json = dict[str, Any]
USER = {"role": "user", "content": "q"}
THOUGHT = {"role": "assistant", "content": "", "reasoning_content": "hm"}
TEXT = {"role": "assistant", "content": "t"}
CALL = {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}}
RESULT = {"role": "function", "name": "f", "content": "r"}


@each_case(
    ("messages", "kept", "warned"),
    [
        ([USER, THOUGHT, USER], [0, 2], ["messages[1]"]),
        ([USER, THOUGHT, USER, THOUGHT], [0, 2], ["messages[1]", "messages[3]"]),
        ([USER, TEXT, USER], [0, 1, 2], []),
        ([USER, {**TEXT, "reasoning_content": "hm"}, USER], [0, 1, 2], []),
        ([USER, {**CALL, "reasoning_content": "hm"}, RESULT], [0, 1, 2], []),
        ([THOUGHT], [0], []),
    ],
)
def test_a_turn_that_is_only_a_thought_is_left_out_for_a_server_that_refuses_it(
    messages: list[Json], kept: list[int], warned: list[str]
) -> None:
    request = conversation(*messages)
    got, warnings = drop_thought_only_turns(request, KINDS["moonshot"])
    assert got.messages == tuple(request.messages[place] for place in kept)
    assert [text.split(" ")[0] for text in warnings] == warned
    assert drop_thought_only_turns(request, Profile()) == (request, [])


def test_a_thought_and_the_text_of_the_same_turn_stay_together() -> None:
    """Qwen-Agent has them in messages of their own."""
    request = conversation(USER, THOUGHT, TEXT, THOUGHT, CALL, RESULT)
    assert drop_thought_only_turns(request, KINDS["moonshot"]) == (request, [])
