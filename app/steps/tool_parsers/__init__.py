"""Parses tool calls that a server leaves in the content of a reply, with one grammar for each model family."""

from collections.abc import Mapping, Sequence

from app.chat.messages import Tool
from app.steps.tool_parsers import harmony, json_calls, pythonic, special_token_families, tag_families
from app.steps.tool_parsers.stage import CallStage, Grammar

FAMILIES: Mapping[str, Grammar] = {
    "hermes": tag_families.hermes,
    "qwen3_coder": tag_families.qwen3_coder,
    "deepseek_v3": special_token_families.deepseek,
    "deepseek_v31": special_token_families.deepseek,
    "dsml": tag_families.dsml,
    "mistral_json": json_calls.mistral,
    "mistral_args": json_calls.mistral,
    "llama_json": json_calls.llama_json,
    "pythonic": pythonic.pythonic,
    "glm45": tag_families.glm45,
    "kimi_k2": special_token_families.kimi_k2,
    "minimax_m2": tag_families.minimax_m2,
    "harmony": harmony.harmony,
    "lmstudio": tag_families.lmstudio,
}
_ALWAYS = frozenset({"harmony"})
"""Families whose content is parsed even without tools, because it has more than calls: harmony's channels."""


def tool_parser_stage(family: str, tools: Sequence[Tool], reply_id: str) -> CallStage | None:
    """Return the stage for a model of this family, or None if the request has no tools and so no calls."""
    if not tools and family not in _ALWAYS:
        return None
    return CallStage(reply_id, tools, FAMILIES[family])
