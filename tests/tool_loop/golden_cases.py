"""Cases of replies whose tools the gateway runs. They are shared with other projects and not part of this one:
`PARLEY_TOOL_CASES` names their folder, and without it the tests that need them are skipped."""

import json
import os
import re
from pathlib import Path
from typing import Any

Json = dict[str, Any]
FOLDER = Path(os.environ.get("PARLEY_TOOL_CASES", "/nonexistent"))
_PLACEHOLDER = re.compile(r"<([a-z_]+)(?::([A-Za-z0-9_]+))?>")


def list_cases() -> list[str]:
    return sorted(path.stem for path in (FOLDER / "cases").glob("*.json"))


def read_case(name: str) -> Json:
    case: Json = json.loads((FOLDER / "cases" / f"{name}.json").read_text())
    return case


class Differences:
    """Compares what a gateway sends with what a case has. `found` has one line for each difference."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._texts: dict[str, str] = {}

    def compare(self, expected: Any, actual: Any, path: str, ids: dict[str, str] | None = None) -> None:
        ids = {} if ids is None else ids
        if isinstance(expected, str):
            self._compare_text(expected, actual, path, ids)
        elif isinstance(expected, dict) and isinstance(actual, dict):
            for key, value in expected.items():
                if key == "content" and value in ("", None) and actual.get(key) in ("", None):
                    continue
                if key not in actual:
                    self.found.append(f"{path}.{key} is missing: {value!r}")
                else:
                    self.compare(value, actual[key], f"{path}.{key}", ids)
        elif isinstance(expected, list) and isinstance(actual, list):
            if len(expected) != len(actual):
                self.found.append(f"{path} has {len(actual)} entries, not {len(expected)}: {actual!r}")
            for place, (one, other) in enumerate(zip(expected, actual, strict=False)):
                self.compare(one, other, f"{path}[{place}]", ids)
        elif expected != actual:
            self.found.append(f"{path} is {actual!r}, not {expected!r}")

    def _compare_text(self, expected: str, actual: Any, path: str, ids: dict[str, str]) -> None:
        whole = _PLACEHOLDER.fullmatch(expected)
        if whole is None and "<rest>" in expected:
            if not isinstance(actual, str) or not actual.startswith(expected.partition("<rest>")[0]):
                self.found.append(f"{path} is {actual!r}, not {expected!r}")
        elif whole is None:
            if expected != actual:
                self.found.append(f"{path} is {actual!r}, not {expected!r}")
        elif whole[1] == "id":
            if ids.setdefault(whole[2], actual) != actual or not isinstance(actual, str):
                self.found.append(f"{path} is {actual!r}, not {ids[whole[2]]!r}")
        elif whole[1] == "text" and whole[2]:
            name = whole[2].removesuffix("_message")
            text = actual if not isinstance(actual, str) else actual.removeprefix("Error: ")
            if not text or self._texts.setdefault(name, text) != text:
                self.found.append(f"{path} is {actual!r}, not {self._texts.get(name)!r}")
        elif whole[1] in ("ms", "bytes", "time", "estimate") and not isinstance(actual, int | float):
            self.found.append(f"{path} is no number: {actual!r}")


def join_deltas(frames: list[Json]) -> list[Json]:
    """Return the frames with neighbouring texts of the same message as one: reads may divide them anywhere."""
    joined: list[Json] = []
    for frame in frames:
        previous = joined[-1] if joined else {}
        if not _join_qwen(previous, frame) and not _join_completion(previous, frame):
            joined.append(json.loads(json.dumps(frame)))
    for frame in joined:
        frame.pop("seq", None)
    return joined


def _join_qwen(previous: Json, frame: Json) -> bool:
    if not (frame.get("type") == previous.get("type") == "message.delta" and frame["index"] == previous["index"]):
        return False
    for key, value in frame["delta"].items():
        if isinstance(value, str):
            previous["delta"][key] += value
        else:
            previous["delta"][key]["arguments"] += value["arguments"]
    return True


def _join_completion(previous: Json, frame: Json) -> bool:
    if not (frame.get("choices") and previous.get("choices")) or "server_message" in {**frame, **previous}:
        return False
    delta, earlier = frame["choices"][0]["delta"], previous["choices"][0]["delta"]
    if frame["choices"][0]["finish_reason"] or delta.keys() != earlier.keys() or len(delta) != 1:
        return False
    [(key, value)] = delta.items()
    if key in ("content", "reasoning_content"):
        earlier[key] += value
        return True
    return False
