"""Messages with media as Qwen-Agent sends them, and where ours differ on purpose."""

import json
from pathlib import Path
from typing import Any

from app.chat.messages import Media, Text

GOLDENS = Path(__file__).parents[2] / "goldens" / "qwen_agent"


def golden(name: str) -> Any:
    return json.loads((GOLDENS / f"{name}.json").read_text())


def remote(value: str) -> str:
    """The goldens name local files; the gateway takes URLs only, of the same name."""
    return value if "://" in value or value.startswith("data:") else f"https://x.com/{value.rsplit('/', 1)[-1]}"


def item(wire: dict[str, Any], path: str = "") -> Text | Media:
    [(kind, value)] = wire.items()
    if kind == "text":
        return Text(value)
    if kind == "audio" and isinstance(value, dict):
        return Media("audio", (remote(value["data"]),), format=value.get("format"), path=path)
    if isinstance(value, list):
        return Media("video", tuple(map(remote, value)), frames=True, path=path)
    return Media(kind, (remote(value),), path=path)  # type: ignore[arg-type]  # the keys are the kinds


NO_SWITCH = "what a model does not take is always named: Qwen-Agent can leave it out without a word"

NAMED = "a file in a result is named"

NO_URL = "refused: it is neither a URL nor base64"

NO_NAME = "a data URI has no name in it"

APART = "the original's inner function, there is none here: text and media go to the body together"


def why_different(row: Any) -> str:
    """Why an entry of `unit_text_utils` is not as here; blank where it is."""
    if row["fn"] == "get_basename_from_url":
        return NO_NAME if row["input"].startswith("data:") else "" if row["input"] else "nothing has no name: no crash"
    if row["fn"] == "has_chinese_messages":
        return ""
    if row["fn"] == "format_as_text_message":
        return APART
    items = row["input"]["content"]
    if any(item.get("video") == [1] or isinstance(item.get("audio"), dict) for item in items if items != "x"):
        return NO_URL
    if row["input"]["role"] == "function":
        return "" if items == "x" else NAMED
    if not row["add_upload_info"] and any("file" in item for item in items if items != "x"):
        return NO_SWITCH
    return ""


UNITS: list[Any] = golden("unit_text_utils")
