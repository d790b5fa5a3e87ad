"""Cases of replies whose tools the gateway runs. They are shared with other projects and not part of this one:
`PARLEY_TOOL_CASES` names their folder, and without it the tests that need them are skipped."""

import json
import os
import re
from pathlib import Path
from typing import Any

import httpx

from tests.in_process_gateway import ModelServer, streamed

Json = dict[str, Any]
FOLDER = Path(os.environ.get("PARLEY_TOOL_CASES", "/nonexistent"))
_PLACEHOLDER = re.compile(r"<([a-z_]+)(?::([A-Za-z0-9_]+))?>")


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
            head, _, placeholder = expected.partition("<id:")
            if placeholder and isinstance(actual, str) and actual.startswith(head):
                self._compare_text(f"<id:{placeholder}", actual.removeprefix(head), path, ids)
            elif expected != actual:
                self.found.append(f"{path} is {actual!r}, not {expected!r}")
        elif whole[1] == "id":
            if ids.setdefault(whole[2], actual) != actual or not isinstance(actual, str):
                self.found.append(f"{path} is {actual!r}, not {ids[whole[2]]!r}")
        elif whole[1] == "text" and whole[2]:
            name = whole[2].removesuffix("_message")
            text = actual if not isinstance(actual, str) else actual.removeprefix("Error: ")
            if not text or self._texts.setdefault(name, text) != text:
                self.found.append(f"{path} is {actual!r}, not {self._texts.get(name)!r}")
        elif whole[1] == "time" and isinstance(actual, str):
            if not actual[:4].isdigit():
                self.found.append(f"{path} is no time: {actual!r}")
        elif whole[1] in ("ms", "bytes", "time", "estimate") and not isinstance(actual, int | float):
            self.found.append(f"{path} is no number: {actual!r}")


def join_deltas(frames: list[Json], format_: str = "") -> list[Json]:
    """Return the frames with neighbouring texts of the same message as one: reads may divide them anywhere."""
    if format_ == "agentscope":
        frames = _keep_last_of_each_message(frames)
    joined: list[Json] = []
    for frame in frames:
        previous = joined[-1] if joined else {}
        if not any(join(previous, frame) for join in (_join_qwen, _join_completion, _join_flat, _join_block)):
            joined.append(json.loads(json.dumps(frame)))
    for frame in joined:
        frame.pop("seq", None)
        frame.pop("sequence_number", None)
        if frame.get("type") == "response.created" or frame.get("type") == "response.in_progress":
            frame.pop("response")
    return joined


def _keep_last_of_each_message(frames: list[Json]) -> list[Json]:
    ids = [frame["msg"]["id"] if "msg" in frame else None for frame in frames]
    return [frame for place, frame in enumerate(frames) if ids[place] is None or ids[place] not in ids[place + 1 :]]


_OWN = {"delta", "sequence_number", "id", "content"}


def _join_flat(previous: Json, frame: Json) -> bool:
    """Events of Responses and AgentScope 2 have their text under `delta`, chunks of AutoGen under `content`."""
    kind = frame.get("type", "")
    key = "content" if kind == "ModelClientStreamingChunkEvent" else "delta"
    if (
        kind != previous.get("type")
        or not isinstance(frame.get(key), str)
        or (key == "content" and "Chunk" not in kind)
    ):
        return False
    if {k: v for k, v in previous.items() if k not in _OWN} != {k: v for k, v in frame.items() if k not in _OWN}:
        return False
    previous[key] += frame[key]
    return True


def _join_block(previous: Json, frame: Json) -> bool:
    """Events of Anthropic's Messages."""
    if not (frame.get("type") == previous.get("type") == "content_block_delta" and frame["index"] == previous["index"]):
        return False
    for key, value in frame["delta"].items():
        if key != "type" and previous["delta"].get("type") == frame["delta"]["type"] and key != "signature":
            previous["delta"][key] += value
            return True
    return False


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
