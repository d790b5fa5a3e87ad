"""What the events of a content block lack, repeat or misplace."""

from typing import Any

from app.upstream.messages.blocks import (
    ReplyBlock,
    complete_item,
    extend_item,
    has_detail,
    has_early_input,
    is_misplaced,
    is_repeated,
    lacks_fields,
)

from tests.each_case import each_case

Json = dict[str, Any]
CALL: Json = {"type": "tool_use", "id": "c", "name": "f", "input": {}}


@each_case(
    ("item", "lacks"),
    [
        ({"type": "text", "text": ""}, False),
        ({"type": "thinking"}, True),
        (CALL, False),
        (CALL | {"name": ""}, True),
        (CALL | {"id": 1}, True),
        ({"type": "server_tool_use", "id": "s"}, False),
        ({"type": "server_tool_use", "id": 1}, True),
        ({}, True),
    ],
)
def test_the_start_of_a_block_has_what_clients_read(item: Json, lacks: bool) -> None:
    assert lacks_fields(item) is lacks


def test_the_same_start_of_an_open_call_is_a_repetition() -> None:
    assert is_repeated(ReplyBlock(CALL), dict(CALL))
    assert not is_repeated(ReplyBlock({**CALL, "id": None}), {**CALL, "id": None})  # it may be another call
    assert not is_repeated(ReplyBlock({"type": "text", "text": ""}), {"type": "text", "text": ""})


def test_a_delta_for_a_block_of_another_type_is_misplaced() -> None:
    block = ReplyBlock({"type": "thinking"})
    assert is_misplaced({"type": "text_delta", "text": "a"}, block)
    assert not is_misplaced({"type": "text_delta", "text": ""}, block)
    assert not is_misplaced({"type": "thinking_delta", "thinking": "a"}, block)


def test_a_block_that_is_not_for_the_client_is_whole_at_its_end() -> None:
    block = ReplyBlock({"type": "server_tool_use", "id": "s", "text": "a"})
    extend_item(block, {"type": "x", "text": "b", "more": 1})
    assert complete_item(block) == {"type": "server_tool_use", "id": "s", "text": "ab", "more": 1}
    block.parts = ['{"q":', "1}"]
    assert complete_item(block)["input"] == {"q": 1}
    block.parts = ["{"]
    assert complete_item(block)["input"] == "{"


def test_only_what_the_server_wants_back_is_a_detail() -> None:
    found = [has_detail(ReplyBlock({"type": kind})) for kind in ("text", "tool_use", "thinking", "redacted_thinking")]
    assert found == [False, False, False, True]


def test_input_at_the_start_is_early_unless_code_has_made_the_call() -> None:
    early = CALL | {"input": {"a": 1}}
    assert [has_early_input(one) for one in (early, CALL, early | {"caller": {"type": "code"}})] == [True, False, False]
