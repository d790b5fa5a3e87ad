"""The goldens of the Gemini face, and how what a client reads is compared with them.

`requests/`: a request, and the body that the model server is sent, or the error. `replies/`: a body, the model server's
reply, and what a client reads, streamed as events or as a JSON array, or whole. `<id:n>` is an id of the gateway's own,
the same wherever it stands, `<estimate>` a number of its own, `<text>` any text. Signatures are compared by what the
seal in them holds, and strings that are JSON objects as JSON.
"""

import base64
import json
from pathlib import Path
from typing import Any

from app.formats.gemini.signatures import Signature

Json = dict[str, Any]
FOLDER = Path(__file__).parent


def load(folder: str) -> dict[str, Json]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted((FOLDER / folder).glob("*.json"))}


REQUESTS, REPLIES = load("requests"), load("replies")


def to_bytes(upstream: Json) -> bytes:
    """The body of the model server's reply."""
    lines = [json.dumps(one) for one in upstream["chunks"]]
    lines += ["[DONE]"] if upstream.get("done", True) else []
    return b"".join(b"data: %b\n\n" % line.encode() for line in lines)


def read_events(body: bytes) -> list[Json]:
    """The chunks of a stream, which has nothing but `data:` lines and blank lines."""
    lines = body.decode().split("\r\n")
    assert body.endswith(b"\r\n\r\n")
    assert all(not line or line.startswith("data: {") for line in lines)
    assert all("\n" not in line and not any(mark in line for mark in "\u2028\u2029\x85") for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines if line]


def join_parts(chunks: list[Json]) -> list[Json]:
    """The parts of all chunks, neighbouring texts joined, and an empty text with a signature to the text before it.
    One without a signature is only there because each chunk must have a part."""
    out: list[Json] = []
    for chunk in chunks:
        for candidate in chunk.get("candidates", ()):
            assert candidate["index"] == 0
            assert candidate["content"]["role"] == "model"
            for part in candidate["content"].get("parts", ()):
                if part == {"text": ""}:
                    continue
                last = out[-1] if out else {}
                same = last.get("thought") is part.get("thought") and "thoughtSignature" not in last
                joins = "text" in part and "text" in last and same
                if joins:
                    out[-1] = {**last, **part, "text": last["text"] + part["text"]}
                else:
                    out.append(dict(part))
    return out


class Comparison:
    """`ids` holds what each placeholder stood for."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}

    def check(self, expected: Any, found: Any, path: str = "") -> None:
        if path.endswith(".thoughtSignature"):
            assert _open(expected) == _open(found), (path, _open(expected), _open(found))
            base64.b64decode(found, validate=True)
        elif isinstance(expected, str):
            self._check_text(expected, found, path)
        elif isinstance(expected, dict):
            assert isinstance(found, dict), (path, found)
            assert expected.keys() == found.keys(), (path, expected, found)
            for key, value in expected.items():
                self.check(value, found[key], f"{path}.{key}")
        elif isinstance(expected, list):
            assert isinstance(found, list) and len(expected) == len(found), (path, expected, found)
            for number, (one, other) in enumerate(zip(expected, found, strict=True)):
                self.check(one, other, f"{path}[{number}]")
        else:
            assert expected == found and type(expected) is type(found), (path, expected, found)

    def _check_text(self, expected: str, found: Any, path: str) -> None:
        if expected == "<estimate>":
            assert isinstance(found, int) and found >= 0, path
        elif expected == "<text>":
            assert isinstance(found, str) and found, path
        elif expected.startswith("<id:"):
            assert isinstance(found, str) and found, path
            assert self.ids.setdefault(expected, found) == found, path
        elif expected.startswith("{") and isinstance(found, str):
            assert json.loads(expected) == json.loads(found), path
        else:
            assert expected == found, (path, expected, found)


def _open(signature: str) -> Any:
    opened = Signature(signature)
    return opened.fields if opened.seal is None else opened.seal
