from typing import Any

import msgspec
from app.chat.context_edits import AppliedEdit, ClearThinking, ClearToolUses, Compact
from app.formats.anthropic.context_edits import ReadEdits, read_edits, write_applied
from app.formats.base import Options

from tests.each_case import each_case

COMPACT = "compact_20260112"
TOOLS, THINKING = "clear_tool_uses_20250919", "clear_thinking_20251015"
FIRST = "context_management.edits[0]"


@each_case(
    ("edit", "read"),
    [
        ({"type": TOOLS}, ClearToolUses(path=FIRST)),
        ({"type": TOOLS, "trigger": None, "keep": None}, ClearToolUses(path=FIRST)),
        (
            {
                "type": TOOLS,
                "trigger": {"type": "tool_uses", "value": 4},
                "keep": {"type": "tool_uses", "value": 0},
                "clear_at_least": {"type": "input_tokens", "value": 7},
                "exclude_tools": ["a"],
                "clear_tool_inputs": True,
            },
            ClearToolUses("tool_uses", 4, 0, 7, frozenset(["a"]), True, FIRST),
        ),
        ({"type": TOOLS, "clear_tool_inputs": ["a"]}, ClearToolUses(inputs=frozenset(["a"]), path=FIRST)),
        ({"type": COMPACT}, Compact(path=FIRST)),
        (
            {
                "type": COMPACT,
                "trigger": {"type": "input_tokens", "value": 1000},
                "instructions": "Shortly.",
                "pause_after_compaction": True,
            },
            Compact(1000, "Shortly.", True, FIRST),
        ),
        ({"type": THINKING}, ClearThinking(1)),
        ({"type": THINKING, "keep": "all"}, ClearThinking(None)),
        ({"type": THINKING, "keep": {"type": "all"}}, ClearThinking(None)),
        ({"type": THINKING, "keep": {"type": "thinking_turns", "value": 2}}, ClearThinking(2)),
    ],
)
def test_an_edit_is_read_with_the_defaults_of_the_api(edit: Any, read: Any) -> None:
    assert read_edits({"edits": [edit]}) == ReadEdits((read,))


@each_case(
    ("management", "path"),
    [
        ("all", "context_management"),
        ({"edits": 3}, "context_management.edits"),
        ({"edits": [3]}, FIRST),
        ({"edits": [{}]}, f"{FIRST}.type"),
        ({"edits": [{"type": 3}]}, f"{FIRST}.type"),
        ({"edits": [{"type": TOOLS}, {"type": TOOLS}]}, "context_management.edits[1].type"),
        ({"edits": [{"type": TOOLS, "keep": {"type": "tool_uses", "value": -1}}]}, f"{FIRST}.keep.value"),
        ({"edits": [{"type": COMPACT, "trigger": {"type": "input_tokens", "value": 999}}]}, f"{FIRST}.trigger.value"),
        ({"edits": [{"type": TOOLS, "trigger": {"type": "hours", "value": 1}}]}, f"{FIRST}.trigger.type"),
    ],
)
def test_a_mistake_is_named_at_its_place(management: Any, path: str) -> None:
    assert [one.path for one in read_edits(management).violations] == [path]


def test_nothing_is_read_of_a_request_without_the_field_and_unknown_edits_and_fields_are_warned_of() -> None:
    assert read_edits(None) == ReadEdits()
    assert read_edits({}) == ReadEdits(())
    found = read_edits({"edits": [{"type": "clear_all"}, {"type": THINKING, "other": 1}]})
    assert found.edits == (ClearThinking(1),)
    assert [text.partition(" ")[0] for text in found.warnings] == [FIRST, "context_management.edits[1].other"]


def test_what_was_done_has_the_words_of_the_api() -> None:
    applied = [AppliedEdit("thinking", 2, 10), AppliedEdit("tool_uses", 3, 20)]
    assert write_applied(applied) == {
        "applied_edits": [
            {"type": THINKING, "cleared_thinking_turns": 2, "cleared_input_tokens": 10},
            {"type": TOOLS, "cleared_tool_uses": 3, "cleared_input_tokens": 20},
        ]
    }


def test_what_was_done_is_kept_for_a_reply_that_is_resumed() -> None:
    options = Options(applied_edits=(AppliedEdit("thinking", 2, 10),))
    assert msgspec.json.decode(msgspec.json.encode(options), type=Options) == options
