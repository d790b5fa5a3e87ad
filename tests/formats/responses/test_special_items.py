"""Items that are more than a part of the conversation."""

from typing import Any

from app.formats.request_memory import FirstEntry
from app.formats.responses.special_items import SpecialKind, find_special, is_empty_reasoning, is_reference

from tests.each_case import each_case

ITEMS: list[Any] = [
    {"type": "message", "role": "user", "content": "a", "id": "m"},
    {"role": "user", "content": "a"},
    {"id": "r"},
    {"type": "item_reference", "id": "r"},
    {"type": "reasoning", "id": "e", "summary": [], "content": None, "encrypted_content": ""},
    {"type": "reasoning", "id": "t", "summary": [{"type": "summary_text", "text": "t"}]},
    {"type": "reasoning", "summary": []},
    {"type": "reasoning", "id": "s", "encrypted_content": "sealed"},
    {"type": "reasoning", "id": "s", "summary": [{}], "encrypted_content": {}},
    *({"type": kind} for kind in ("tool_search_output", "additional_tools", "configuration_update")),
    {"type": "compaction_trigger"},
    {"type": "mcp_list_tools", "server_label": "a"},
    {"type": "function_call", "id": "c"},
    {"type": "function_call_output", "id": "o"},
    {"type": "web_search_call", "id": "w"},
    {"type": ["setting"]},
    {"type": 5, "id": 5},
    "text",
]


@each_case(
    ("kind", "places"),
    [
        ("stored", [2, 3, 4]),
        ("sealed", [7]),
        ("setting", [9, 10, 11, 12]),
        ("tool_list", [13]),
    ],
)
def test_each_kind_is_found_at_its_places(kind: SpecialKind, places: list[int]) -> None:
    assert find_special(ITEMS, kind) == places
    assert find_special(ITEMS[:2], kind) == []
    assert find_special([], kind) == []


def test_items_after_known_ones_are_found_too() -> None:
    items = [FirstEntry(ITEMS[0]), *ITEMS[1:]]
    assert find_special(items[:13], "setting") == [9, 10, 11, 12]
    assert find_special([*items, ITEMS[9]], "setting") == [9, 10, 11, 12, len(items)]


def test_references_and_empty_reasoning_are_told_from_other_items() -> None:
    objects = [item for item in ITEMS if isinstance(item, dict)]
    assert [number for number, item in enumerate(objects) if is_reference(item)] == [2, 3]
    assert [number for number, item in enumerate(objects) if is_empty_reasoning(item)] == [4, 6]
