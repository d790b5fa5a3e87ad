"""The goldens of `POST /v1/messages`: their README says what a case holds."""

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]
FOLDER = Path(__file__).parent / "messages"


def load(kind: str) -> dict[str, Json]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted((FOLDER / kind).glob("*.json"))}


def events(data: bytes) -> list[Json]:
    """The events of a stream but pings; each is named as its data say."""
    found: list[Json] = []
    for block in data.decode().removesuffix("\n\n").split("\n\n"):
        name, line = block.split("\n")
        fields = json.loads(line.removeprefix("data: "))
        assert name == f"event: {fields['type']}"
        if fields["type"] != "ping":
            found.append(fields)
    return found


def joined(events: list[Json]) -> list[Json]:
    """The events with neighbouring deltas of one kind as one: they may be split as the reads were."""
    out: list[Json] = []
    for event in events:
        delta = event.get("delta", {})
        before = out[-1].get("delta", {}) if out else {}
        text = next((key for key in ("text", "thinking", "partial_json") if key in delta), None)
        if text and event["type"] == "content_block_delta" and before.get("type") == delta["type"]:
            out[-1] = {**out[-1], "delta": {**before, text: before[text] + delta[text]}}
        else:
            out.append(event)
    return out


def differences(want: Any, got: Any, path: str = "") -> list[str]:
    """Where the answer is not what a case expects. An error may have more fields than the case names, and a message
    the warnings of the gateway."""
    if isinstance(want, str) and want.startswith("<") and want.endswith(">"):
        return [] if _fits(want, got) else [f"{path}: {got!r} is no {want}"]
    if isinstance(want, dict) and isinstance(got, dict):
        free = {"parley"} if "retryable" not in want else set(got)
        extra = sorted(got.keys() - want.keys() - free)
        found = [f"{path}.{key}: more than the case has" for key in extra]
        return found + [line for key in want for line in differences(want[key], got.get(key), f"{path}.{key}")]
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        return [line for at, one in enumerate(want) for line in differences(one, got[at], f"{path}[{at}]")]
    if path.endswith(".message") and isinstance(got, str):
        ours = want == "the model's call is not valid JSON"
        return [] if ours or got.startswith(want) else [f"{path}: {got!r} instead of {want!r}"]
    return [] if want == got and type(want) is type(got) else [f"{path}: {got!r} instead of {want!r}"]


def _fits(placeholder: str, got: Any) -> bool:
    if placeholder == "<estimate>":
        return isinstance(got, int) and got > 0
    if placeholder == "<id:msg>":
        return isinstance(got, str) and got.startswith("msg_")
    return isinstance(got, str) and bool(got)


def body(upstream: Json) -> bytes:
    """The bytes of a model server's stream."""
    chunks = upstream["chunks"]
    lines = [one if isinstance(one, str) else f"data: {json.dumps(one)}\n\n" for one in chunks]
    return "".join([*lines, "data: [DONE]\n\n" if upstream["done"] else ""]).encode()
