"""Calls that servers leak as text: one grammar for each family of models, read off the content of a reply."""

from collections.abc import Mapping, Sequence

from app.chat.messages import Tool
from app.steps.text_tools import blocks, harmony, json_calls, pythonic, tokens
from app.steps.text_tools.stage import CallStage, Grammar

FAMILIES: Mapping[str, Grammar] = {
    "hermes": blocks.hermes,
    "qwen3_coder": blocks.qwen3_coder,
    "deepseek_v3": tokens.deepseek,
    "deepseek_v31": tokens.deepseek,
    "dsml": blocks.dsml,
    "mistral_json": json_calls.mistral,
    "mistral_args": json_calls.mistral,
    "llama_json": json_calls.llama_json,
    "pythonic": pythonic.pythonic,
    "glm45": blocks.glm45,
    "kimi_k2": tokens.kimi_k2,
    "minimax_m2": blocks.minimax_m2,
    "harmony": harmony.harmony,
    "lmstudio": blocks.lmstudio,
}
_ALWAYS = frozenset({"harmony"})
"""Families whose text holds more than calls: channels are read without tools too."""


def text_stage(family: str, tools: Sequence[Tool], reply_id: str) -> CallStage | None:
    """The stage for a model of this family; None where the request offered no tools, so that text is only text."""
    if not tools and family not in _ALWAYS:
        return None
    return CallStage(reply_id, tools, FAMILIES[family])
