"""Compares what a gateway sends with what a golden case expects. All runners of golden cases use it.

In what is expected, objects may lack fields of what was sent, null is the same as absent, and these stand for values:
`<id:NAME>` and `<text:NAME>` any text, the same wherever the name stands; `<text>`, `<number>`, `<time>`, `<any>`;
`<absent>` no value, or an empty list; `<seal>` a sealed text; `TEXT<rest>` a text that begins so; `{"<has>": TEXT}` a
text with TEXT in it; `{"<contains>": [...]}` a list with such entries; `{"<one_of>": [...]}` one of these.
"""

import json
import re
from typing import Any

Json = dict[str, Any]
_PLACEHOLDER = re.compile(r"<([a-z_]+)(?::([A-Za-z0-9_]+))?>")
_CHOICES = frozenset({"<has>", "<contains>", "<one_of>"})
_NUMBERS = frozenset({"ms", "bytes", "number", "time", "estimate"})


class Differences:
    """`found` has one line for each difference."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._texts: dict[str, str] = {}

    def compare(self, expected: Any, actual: Any, path: str, ids: dict[str, str] | None = None) -> None:
        ids = {} if ids is None else ids
        if isinstance(expected, str):
            self._compare_text(expected, actual, path, ids)
        elif isinstance(expected, dict) and len(expected) == 1 and not _CHOICES.isdisjoint(expected):
            ((choice, wanted),) = expected.items()
            self._compare_choice(choice, wanted, actual, path, ids)
        elif isinstance(expected, dict) and isinstance(actual, dict):
            for key, value in expected.items():
                if key == "content" and value in ("", None) and actual.get(key) in ("", None):
                    continue
                self.compare(value, actual.get(key), f"{path}.{key}", ids)
        elif isinstance(expected, list) and isinstance(actual, list):
            if len(expected) != len(actual):
                self.found.append(f"{path} has {len(actual)} entries, not {len(expected)}: {actual!r}")
            for place, (one, other) in enumerate(zip(expected, actual, strict=False)):
                self.compare(one, other, f"{path}[{place}]", ids)
        elif expected != actual and not _is_same_number(expected, actual):
            self._note(expected, actual, path)

    def _note(self, expected: Any, actual: Any, path: str) -> None:
        self.found.append(f"{path} is {actual!r}, not {expected!r}")

    def _compare_text(self, expected: str, actual: Any, path: str, ids: dict[str, str]) -> None:
        whole = _PLACEHOLDER.fullmatch(expected)
        if whole is None and "<rest>" in expected:
            if not isinstance(actual, str) or not actual.startswith(expected.partition("<rest>")[0]):
                self._note(expected, actual, path)
        elif whole is None:
            head, _, placeholder = expected.partition("<id:")
            if placeholder and isinstance(actual, str) and actual.startswith(head):
                self._compare_text(f"<id:{placeholder}", actual.removeprefix(head), path, ids)
            elif expected != actual and not _is_same_json(expected, actual):
                self._note(expected, actual, path)
        elif not self._fits_placeholder(whole[1], whole[2], actual, ids):
            self._note(expected, actual, path)

    def _fits_placeholder(self, kind: str, name: str | None, actual: Any, ids: dict[str, str]) -> bool:
        if kind == "id" and name:
            return isinstance(actual, str) and actual != "" and ids.setdefault(name, actual) == actual
        if kind == "text" and name:
            text = actual if not isinstance(actual, str) else actual.removeprefix("Error: ")
            return bool(text) and self._texts.setdefault(name.removesuffix("_message"), text) == text
        if kind == "text":
            return isinstance(actual, str)
        if kind == "seal":
            return isinstance(actual, str) and actual.startswith("parley1.")
        if kind == "absent":
            return actual is None or actual == []
        if kind in ("time", "number") and isinstance(actual, str):
            return actual[:4].isdigit() if kind == "time" else actual.isdigit()
        if kind in _NUMBERS:
            return isinstance(actual, int | float)
        return kind == "any"

    def _compare_choice(self, choice: str, wanted: Any, actual: Any, path: str, ids: dict[str, str]) -> None:
        if choice == "<has>" and not (isinstance(actual, str) and wanted in actual):
            self.found.append(f"{path} is {actual!r}, which lacks {wanted!r}")
        elif choice == "<contains>":
            found = actual if isinstance(actual, list) else []
            missing = [entry for entry in wanted if not any(fits(entry, one, ids) for one in found)]
            self.found += [f"{path} has no {entry!r}: {actual!r}" for entry in missing]
        elif choice == "<one_of>" and not any(fits(one, actual, ids) for one in wanted):
            self._note(wanted, actual, path)


def fits(expected: Any, actual: Any, ids: dict[str, str] | None = None) -> bool:
    """Whether nothing differs; if so, `ids` gets the names that were met."""
    differences, known = Differences(), dict(ids or {})
    differences.compare(expected, actual, "", known)
    if differences.found:
        return False
    if ids is not None:
        ids.update(known)
    return True


def _is_same_number(expected: Any, actual: Any) -> bool:
    numbers = isinstance(expected, int | float) and isinstance(actual, int | float)
    return numbers and not isinstance(expected, bool) and not isinstance(actual, bool) and abs(expected - actual) < 1e-9


def _is_same_json(expected: str, actual: Any) -> bool:
    """Whether two texts are the same arguments of a call, written otherwise."""
    if not expected.startswith("{") or not isinstance(actual, str):
        return False
    try:
        return bool(json.loads(expected) == json.loads(actual))
    except ValueError:
        return False


def join_deltas(frames: list[Json]) -> list[Json]:
    """Return the frames without their numbers, and neighbouring texts of the same message as one: reads may divide them
    anywhere."""
    joined: list[Json] = []
    for frame in frames:
        previous = joined[-1] if joined else {}
        if not any(join(previous, frame) for join in (_join_qwen, _join_completion, _join_flat, _join_block)):
            joined.append(json.loads(json.dumps(frame)))
    for frame in joined:
        frame.pop("seq", None)
        frame.pop("sequence_number", None)
    return joined


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
