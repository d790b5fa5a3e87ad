"""Conversations that Qwen-Agent cut, and where ours are cut otherwise on purpose."""

import json
from pathlib import Path
from typing import Any

from app.chat.messages import (
    ChatRequest,
    MediaKind,
)

RECORDED = Path(__file__).parents[1] / "goldens" / "qwen_agent" / "unit_truncation.json"

CASES: list[dict[str, Any]] = json.loads(RECORDED.read_text())

MEDIA: dict[MediaKind, int] = {"image": 8, "file": 8}

TOO_LONG = "too long"

NO_ROOM_FOR_CALLS = "calls keep their arguments, and these alone are too long"

DECODING = "refused where the messages are read, whatever their length"

DIFFERENT: dict[tuple[str, int], tuple[Any, str]] = {
    ("three_turns", 5): (TOO_LONG, "the same refusal, under a code of its own"),
    ("system_too_long", 50): (TOO_LONG, "the same refusal, under a code of its own"),
    ("three_turns", 26): ([5], "one token is no turn: the word in the place of the question has one itself"),
    ("system_in_middle", 14): ([3], "one token is no turn: the word in the place of the question has one itself"),
    ("tool_turn", 10): (TOO_LONG, NO_ROOM_FOR_CALLS),
    ("tool_turn", 5): (TOO_LONG, NO_ROOM_FOR_CALLS),
    ("parallel_calls", 10): (TOO_LONG, NO_ROOM_FOR_CALLS),
    ("fc_with_content", 10): ([3], "the call is kept whole or goes with its result, and the question with both"),
    ("consecutive_users_first_long", 40): ([0, 1], "users in a row are no defect of ours"),
    ("two_system", 100): ([2], DECODING),
    ("starts_with_assistant", 100): ([0, 1], DECODING),
}
"""What survives here where it is not what Qwen-Agent keeps, and why."""


def name_of(case: dict[str, Any]) -> str:
    return f"{case['name']}-{case['max_tokens']}"


def survivors(case: dict[str, Any]) -> list[int]:
    """Places of the messages that Qwen-Agent kept, system messages apart. The later of two that look alike."""
    places: list[int] = []
    place = len(case["messages"])
    for kept in reversed([one for one in case["result"] if one is None or one["role"] != "system"]):
        place -= 1
        while not _is_kept(case["messages"][place], kept):
            place -= 1
        places.insert(0, place)
    return places


def _is_kept(before: dict[str, Any], after: dict[str, Any] | None) -> bool:
    if after is None:
        return bool(before["role"] != "system")
    keys = ["role", *(key for key in ("name", "function_call") if after.get(key))]
    return all(before.get(key) == after[key] for key in keys)


def places(request: ChatRequest) -> list[int]:
    return [int(one.path[9:-1]) for one in request.messages if one.role != "system"]
