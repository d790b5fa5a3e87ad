"""The goldens of the Responses API, and how their placeholders are compared.

`<id:…>` is an id of the gateway's own, the same wherever it stands; `<model>` the model as it was asked for;
`<estimate>` a number of the gateway's own counter. `<request fields>` are the fields of the request that a Response
repeats. Objects of errors may have more fields than a case, and a Response has `parley`, if there are warnings.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Json = dict[str, Any]
FOLDER = Path(__file__).parent
MADE_CALL_ID = re.compile(r"call_[0-9a-f]{24}")


def load(folder: str) -> dict[str, Json]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted((FOLDER / folder).glob("*.json"))}


REQUESTS, REPLIES, LOOPS = load("requests"), load("replies"), load("loops")


def to_bytes(upstream: Json) -> bytes:
    """The body of the model server's reply."""
    lines = [one if isinstance(one, str) else json.dumps(one) for one in upstream["chunks"]]
    if upstream.get("done", True):
        lines.append("[DONE]")
    return b"".join(b"data: %b\n\n" % line.encode() for line in lines)


def join_deltas(events: Iterable[Json]) -> list[Json]:
    """The events with the consecutive deltas of a part as one, and numbered again."""
    joined: list[Json] = []
    for event in events:
        event = dict(event)
        last = joined[-1] if joined else {}
        if event["type"] == last.get("type") and event["type"].endswith(".delta"):
            last["delta"] += event["delta"]
        else:
            joined.append(event)
    return [event | {"sequence_number": number} for number, event in enumerate(joined)]


class Comparison:
    """Compares with a golden; `ids` holds what each placeholder stood for."""

    def __init__(self, model: str) -> None:
        self.ids: dict[str, str] = {}
        self._model = model

    def check(self, expected: Any, found: Any, path: str = "") -> None:
        if isinstance(expected, str):
            self._check_text(expected, found, path)
        elif isinstance(expected, dict):
            assert isinstance(found, dict), path
            self._check_object(expected, found, path)
        elif isinstance(expected, list):
            assert isinstance(found, list) and len(expected) == len(found), (path, expected, found)
            for number, (one, other) in enumerate(zip(expected, found, strict=True)):
                self.check(one, other, f"{path}[{number}]")
        else:
            assert expected == found, (path, expected, found)

    def _check_text(self, expected: str, found: Any, path: str) -> None:
        if expected == "<model>":
            expected = self._model
        elif expected == "<estimate>":
            assert isinstance(found, int) and found > 0, path
            return
        elif expected.startswith("<id:") or MADE_CALL_ID.fullmatch(expected):
            assert isinstance(found, str), path
            assert self.ids.setdefault(expected, found) == found, path
            return
        assert expected == found, (path, expected, found)

    def _check_object(self, expected: Json, found: Json, path: str) -> None:
        echoes = "<request fields>" in expected
        known = expected.keys() - {"<request fields>"}
        assert known <= found.keys(), (path, known - found.keys())
        if not echoes and not path.endswith("error"):
            assert found.keys() - known <= {"parley"}, (path, found.keys() - known)
        for key in known:
            if key != "message" or not path.endswith("error"):
                self.check(expected[key], found[key], f"{path}.{key}")


def with_numbered_ids(value: Json) -> Json:
    """Item ids end in a number; those of the goldens end in a letter or word."""
    names: dict[str, int] = {}

    def number(match: "re.Match[str]") -> str:
        return f'"{match[1]}_{1:032x}_{names.setdefault(match[0], len(names))}"'

    text = re.sub(r'"resp_(\d+)"', lambda match: f'"resp_{int(match[1]):032x}"', json.dumps(value))
    return dict(json.loads(re.sub(r'"(rs|msg|fc)_(\w+)"', number, text)))


def stored_by_turn(script: Any, body: Json) -> Json:
    """What a turn of a loop leaves, in the form of `stored` in a request."""
    response = script[-1].get("response") if isinstance(script, list) else script
    if not isinstance(response, dict) or "output" not in response:
        return {}
    given = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
    return {"responses": {response["id"]: [*given, *response["output"]]}}
