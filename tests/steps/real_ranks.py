"""Truncation counted with the ranks of Qwen-Agent's own tokenizer: figures computed once, and the ranks where they are
at hand.

`tests/goldens/real_ranks.json` holds, of qwen-agent 0.0.34's `utils/qwen.tiktoken`, its checksum, every count and every
shortened text that cutting the recorded conversations asks for, and which messages then survive. The ranks themselves
are not in this repository. `python -m tests.steps.real_ranks FILE` writes the figures anew.
"""

import hashlib
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.chat.messages import TokenCounter
from app.errors import ContextTooLong
from app.runtime.token_counting import load_counter
from app.steps.truncation.truncate import truncate

from tests.steps.conversations import conversation
from tests.steps.recorded_truncations import CASES, DIFFERENT, MEDIA, TOO_LONG, name_of, places

FIGURES = Path(__file__).parents[1] / "goldens" / "real_ranks.json"
_CALLS = "a call counts its name and its arguments, not the way in which Python writes them: less has to be cut"
DIFFERENT_BY_RANKS: dict[str, str] = {
    **{f"{name}-{limit}": why for (name, limit), (_, why) in DIFFERENT.items() if (name, limit) != ("tool_turn", 10)},
    **dict.fromkeys(("tool_turn-100", "tool_turn-90", "tool_turn-70"), _CALLS),
    **dict.fromkeys(("tool_then_answer-60", "tool_then_answer-40"), _CALLS),
    **dict.fromkeys(("two_tool_turns-120", "two_tool_turns-100", "two_tool_turns-50"), _CALLS),
    "reasoning_not_counted-3": "reasoning counts",
}
"""Where other messages survive than Qwen-Agent's, and why."""


def at_hand() -> Path | None:
    """The ranks: where `PARLEY_QWEN_RANKS` says, or in an installed qwen-agent, which is not imported for it."""
    if given := os.environ.get("PARLEY_QWEN_RANKS"):
        return Path(given)
    spec = find_spec("qwen_agent")
    folders = spec.submodule_search_locations if spec else None
    found = Path(next(iter(folders or [""]))) / "utils" / "qwen.tiktoken"
    return found if found.is_file() else None


class Recording:
    """A counter that keeps what it was asked."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self.counts: dict[str, int] = {}
        self.cuts: dict[str, str] = {}

    def count(self, text: str) -> int:
        self.counts[_key(text)] = found = self._counter.count(text)
        return found

    def truncate(self, text: str, limit: int, keep_both_sides: bool = True) -> str:
        self.cuts[_key(text, limit, keep_both_sides)] = found = self._counter.truncate(text, limit, keep_both_sides)
        return found


class Recorded:
    """The counter that was recorded. Raises KeyError for what it was never asked."""

    def __init__(self, figures: dict[str, Any]) -> None:
        self._figures = figures

    def count(self, text: str) -> int:
        return int(self._figures["counts"][_key(text)])

    def truncate(self, text: str, limit: int, keep_both_sides: bool = True) -> str:
        return str(self._figures["cuts"][_key(text, limit, keep_both_sides)])


def _key(*asked: Any) -> str:
    return hashlib.blake2b(json.dumps(asked).encode(), digest_size=8).hexdigest()


def load_figures() -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(FIGURES.read_text("utf-8"))
    return figures


def survivors_by(counter: TokenCounter) -> dict[str, list[int] | str]:
    """Which messages of each recorded conversation survive, by the name of the case."""
    return {name_of(case): _kept(case, counter) for case in CASES}


def _kept(case: dict[str, Any], counter: TokenCounter) -> list[int] | str:
    try:
        request, _ = truncate(conversation(*case["messages"]), case["max_tokens"], counter, MEDIA)
    except ContextTooLong:
        return TOO_LONG
    return places(request)


def compute(path: Path) -> dict[str, Any]:
    recording = Recording(load_counter(path))
    kept = survivors_by(recording)
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"sha256": checksum, "survivors": kept, "counts": recording.counts, "cuts": recording.cuts}


if __name__ == "__main__":
    FIGURES.write_text(json.dumps(compute(Path(sys.argv[1])), indent=1, sort_keys=True) + "\n", "utf-8")
