"""What clients send, kept as fixtures of the tests: of each kind of request the first."""

import json
from pathlib import Path
from typing import Any

from interop.gateway import Asked
from interop.outcomes import Outcome

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "interop" / "recorded"

LONGEST = 160
"""Words that packages add of their own are longer, and not ours to keep."""


def record(outcomes: list[Outcome]) -> None:
    """Writes the requests of one client that the demo model answered."""
    kinds: dict[Any, dict[str, Any]] = {}
    for outcome in outcomes:
        for asked in outcome.asked:
            if asked.status == 200 and asked.body and asked.body.get("model") == "demo":
                row = {"path": asked.path, "headers": asked.headers, "body": _shortened(asked.body)}
                kinds.setdefault(_kind(asked), row)
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row, ensure_ascii=False) for row in kinds.values()]
    text = "[\n" + ",\n".join(lines) + "\n]\n"
    (FOLDER / f"{outcomes[0].client.name}.json").write_text(text, "utf-8")


def _kind(asked: Asked) -> Any:
    """What is said but for the words: the keys of the body and of its messages, and whether it streams."""
    body = asked.body
    shapes = {(message.get("role"), message.get("type"), *sorted(message)) for message in body["messages"]}
    return asked.path, body.get("stream"), body.get("format"), frozenset(body), frozenset(shapes)


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    return f"{value[:20]}…" if isinstance(value, str) and len(value) > LONGEST else value
