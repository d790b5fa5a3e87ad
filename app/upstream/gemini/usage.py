"""The usage of a reply of the Gemini API, with OpenAI's names (ai.google.dev/api/generate-content, UsageMetadata).

The prompt has the tokens of the server's own tools beside it, and the answer those of the reasoning, which OpenAI's
numbers contain. Google's own numbers stay beside them.
"""

from typing import Any

from app.chat.token_usage import read_count
from app.upstream.reply.usage import normalize_usage


def read_usage(given: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the usage with OpenAI's three totals; None if none of them is known."""
    if given is None:
        return None
    prompt, tools, answer, thoughts, total = (
        read_count(given.get(name))
        for name in (
            "promptTokenCount",
            "toolUsePromptTokenCount",
            "candidatesTokenCount",
            "thoughtsTokenCount",
            "totalTokenCount",
        )
    )
    usage: dict[str, Any] = {}
    if prompt is not None:
        usage["prompt_tokens"] = prompt + (tools or 0)
    if answer is not None or thoughts is not None:
        usage["completion_tokens"] = (answer or 0) + (thoughts or 0)
    if total is not None:
        usage["total_tokens"] = total
    return normalize_usage({**usage, **given})
