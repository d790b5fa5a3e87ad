"""Types of blocks, and marks for the prompt cache on them."""

from typing import Any

from app.chat.messages import CacheMark, Text
from app.formats.agentscope.common_schema import marked, marked_last, tag_by_type, with_mark

from tests.each_case import each_case

MARK = {"type": "ephemeral"}
BLOCK = {"type": "text", "text": "t", "cache_control": MARK}
A, B = Text("a"), Text("b")


@each_case(
    ("value", "tag"), [({"type": "text"}, "<text>"), ({"type": 1}, None), ({}, None), ("text", None), (None, None)]
)
def test_the_tag_of_a_block_is_its_type_in_brackets(value: Any, tag: str | None) -> None:
    assert tag_by_type(value) == tag


def test_a_part_has_the_mark_of_its_block_with_the_path() -> None:
    assert marked(A, BLOCK, "p") == Text("a", CacheMark(MARK, "p.cache_control"))
    assert marked(A, {"type": "text", "cache_control": None}, "p") is A


def test_the_mark_of_a_block_is_on_its_last_part_unless_that_has_one() -> None:
    own = Text("b", CacheMark(MARK, "own"))
    assert marked_last([A, B], BLOCK, "p") == (A, Text("b", CacheMark(MARK, "p.cache_control")))
    assert marked_last([A, own], BLOCK, "p") == (A, own)
    assert marked_last([], BLOCK, "p") == ()


def test_the_mark_of_a_part_is_on_the_last_of_its_blocks() -> None:
    blocks: list[dict[str, Any]] = [{"type": "image"}, {"type": "image"}]
    assert with_mark(blocks, Text("a", CacheMark(MARK, "p"))) == [
        {"type": "image"},
        {"type": "image", "cache_control": MARK},
    ]
    assert with_mark(blocks, A) is blocks
    assert with_mark([], Text("a", CacheMark(MARK, "p"))) == []
