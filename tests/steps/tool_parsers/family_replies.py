"""Replies whose text has calls as a family of models writes them, and what must be read."""

from app.chat.messages import Tool
from app.steps.tool_parsers import tool_parser_stage

from tests.steps.stage_runner import Reply, run, texts

TOOLS = (
    Tool(
        "f",
        {
            "name": "f",
            "parameters": {
                "properties": {
                    "n": {"type": "integer"},
                    "x": {"type": "number"},
                    "s": {"type": "string"},
                    "b": {"type": "boolean"},
                    "l": {"type": "array"},
                    "o": {"type": ["object", "null"]},
                    "e": {"enum": ["1", "2"]},
                    "u": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                    "w": {"anyOf": [{"type": "integer"}, {}]},
                    "t": True,
                }
            },
        },
    ),
    Tool("g", {"name": "g", "parameters": {"properties": None}}),
)
F, G = ("F", "f", '{"n": 1}'), ("F", "g", "{}")
SEEDS = [None, *range(5)]
"""How the text is cut."""


def reply(family: str, text: str, seed: int | None = None) -> Reply:
    stage = tool_parser_stage(family, TOOLS, "chat-1")
    return run([stage], texts(text, seed))


def check_calls(family: str, text: str, want: list[tuple[str, ...]], seed: int | None) -> None:
    found = reply(family, text, seed)
    assert found.short() == want
    assert found.reason == ("tool_calls" if any(one[0] == "F" for one in want) else "stop")


def check_text(family: str, text: str, seed: int | None) -> None:
    """The text has no call, and a warning says so."""
    found = reply(family, text, seed)
    assert found.short() == [("C", text)]
    assert found.warnings
    assert found.reason == "stop"
