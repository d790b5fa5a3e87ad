"""Parses tool calls that a server leaves in the content of a reply, as the model's family writes them."""

from collections.abc import Mapping, Sequence

from app.chat.messages import Tool
from app.steps.tool_parsers.families import FAMILIES as ROWS
from app.steps.tool_parsers.family import Grammar, Reader
from app.steps.tool_parsers.stage import CallStage

FAMILIES: Mapping[str, Grammar] = {name: Reader([family]) for name, family in ROWS.items()}
_ALWAYS = frozenset({"harmony"})
"""Families whose content is parsed even without tools, because it has more than calls: harmony's channels."""


def tool_parser_stage(family: str, tools: Sequence[Tool], reply_id: str) -> CallStage | None:
    """Return the stage for a model of this family, or None if the request has no tools and so no calls."""
    if not tools and family not in _ALWAYS:
        return None
    return CallStage(reply_id, tools, FAMILIES[family])
