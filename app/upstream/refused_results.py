"""Results of tools for servers that take none with media: a result has its texts, and the media stand behind it."""

import re
from collections.abc import Mapping
from typing import Any

REFUSED = re.compile(
    r"input should be (?:a valid string|.?image_url)|only text tool_result|"
    r"(?:tool_result|function_call_output|tool (?:message|result|output))s?\b[^\n]{0,80}?"
    r"(?:image|document|must be (?:a )?string|only (?:supports? )?text|expected a string)|"
    r"invalid type: sequence, expected a string|"
    r"(?:image|document)s?\b[^\n]{0,60}?(?:tool_result|tool results?|function_call_output)",
    re.IGNORECASE,
)
"""What servers say of media in results: ollama/ollama#18055, CommandCodeAI/command-code#850, sgl-project/sglang#34927,
anomalyco/opencode#48740."""
WARNING = (
    "the model server takes no media in results: they were sent behind them. Set `tool_media = false` in the model's "
    "profile"
)


def has_media(parts: list[Any], names: Mapping[str, str]) -> bool:
    """Whether a result has media; `names` are the words for them by their type."""
    return any(_find_name(part, names) for part in parts)


def take_media(parts: list[Any], names: Mapping[str, str], text_type: str, behind: list[Any]) -> str:
    """Return the text of a result. Its media are added to `behind`, each with a text of this type that names it."""
    lines = []
    for part in parts:
        name = _find_name(part, names)
        if name:
            label = f"{name} {len(behind) // 2 + 1}"
            lines.append(f"[{label}: see below]")
            behind += [{"type": text_type, "text": f"[{label}]"}, part]
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            lines.append(part["text"])
    return "\n".join(lines)


def _find_name(part: Any, names: Mapping[str, str]) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    return names.get(kind, "") if isinstance(kind, str) else ""
