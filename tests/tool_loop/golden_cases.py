"""Cases of replies whose tools the gateway runs. They are shared with other projects and not part of this one:
`PARLEY_TOOL_CASES` names their folder, and without it the tests that need them are skipped."""

import json
import os
from pathlib import Path
from typing import Any

import httpx

from tests import golden_comparison
from tests.in_process_gateway import ModelServer, streamed

Json = dict[str, Any]
FOLDER = Path(os.environ.get("PARLEY_TOOL_CASES", "/nonexistent"))


class ScriptedModel(ModelServer):
    def __init__(self) -> None:
        self.turns: list[Any] = []
        super().__init__(lambda _: self._next_turn())

    def _next_turn(self) -> httpx.Response:
        turn = self.turns.pop(0)
        if isinstance(turn, dict):
            return httpx.Response(turn["status"], json=turn["body"])
        return streamed(*[f"data: {json.dumps(chunk)}\n\n".encode() for chunk in turn], b"data: [DONE]\n\n")

    @property
    def sent(self) -> list[Json]:
        return [json.loads(request.content) for request in self.requests]


def list_cases() -> list[str]:
    return sorted(path.stem for path in (FOLDER / "cases").glob("*.json"))


def read_case(name: str) -> Json:
    case: Json = json.loads((FOLDER / "cases" / f"{name}.json").read_text())
    return case


def join_deltas(frames: list[Json], format_: str = "") -> list[Json]:
    """As in `tests.golden_comparison`. What a beginning Response says of itself does not count."""
    joined = golden_comparison.join_deltas(_keep_last_of_each_message(frames) if format_ == "agentscope" else frames)
    for frame in joined:
        if frame.get("type") in ("response.created", "response.in_progress"):
            frame.pop("response")
    return joined


def _keep_last_of_each_message(frames: list[Json]) -> list[Json]:
    ids = [frame["msg"]["id"] if "msg" in frame else None for frame in frames]
    return [frame for place, frame in enumerate(frames) if ids[place] is None or ids[place] not in ids[place + 1 :]]
