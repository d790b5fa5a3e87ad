"""What a model and its server can and cannot do: data, never code.

`KINDS` holds a row of defaults for each known kind of server; a model's own `[models.<name>.profile]` overrides it
field by field. docs/profiles.md is made of this file (`scripts/profiles`).
"""

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

MediaKind: TypeAlias = Literal["image", "audio", "video", "file"]


class Profile(BaseModel):
    """One row. A field that says how a parameter is named is None where the server has no such parameter."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inline_think: Literal["leading", "forced_open", "auto_close", "interleaved", "off"] = "leading"
    """Thinking inside the content: `leading` a block at its start, `forced_open` the opening tag was in the prompt,
    `auto_close` it may have been (text is held until the closing tag or the end), `interleaved` blocks anywhere."""
    think_tags: tuple[str, str] = ("<think>", "</think>")
    """What opens and closes a thought inside the content, in replies and in history."""

    replay_reasoning: Literal["reasoning_content", "reasoning", "think_tags", "none"] = "reasoning_content"
    """The field in which old reasoning goes back to the model, or inside its content between `think_tags`."""
    replay_turns: Literal["all", "tool_turns"] = "all"
    """Whether reasoning goes back with every assistant turn or only with those that called tools."""
    replay_blank_reasoning: bool = False
    """Tool turns need the reasoning field even when no reasoning is known (DeepSeek V3.2+, Kimi)."""
    replay_details: bool = False
    """`extra.reasoning_details` of a turn go back with it, unread and in order (OpenRouter)."""

    thinking_switch: Literal[
        "enable_thinking", "chat_template_kwargs", "thinking_type", "reasoning_effort", "reasoning_object", "none"
    ] = "enable_thinking"
    """How `enable_thinking` is said to this server."""
    thinking_budget: Literal["thinking_budget", "reasoning_max_tokens", "chat_template_kwargs", "none"] = (
        "thinking_budget"
    )
    """How `thinking_budget` is said to this server."""
    max_thinking_budget: int | None = Field(default=None, ge=1)
    """A larger budget is lowered to it, and the caller is warned."""

    media: tuple[MediaKind, ...] = ("image", "audio", "video", "file")
    """What the model takes; anything else is refused with its place in the request."""
    inline_media: tuple[MediaKind, ...] = ("file",)
    """What must come as a data URI, since the server fetches no URL."""
    audio: Literal["data_url", "base64", "audio_url"] = "data_url"
    """Sound is an `input_audio` part that holds a URL or data URI (DashScope), or bare base64 and its format (OpenAI),
    or an `audio_url` part."""
    video_frames: Literal["video", "images"] = "video"
    """A list of frames: DashScope's `video` part, or one image part each."""

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The one name under which the most tokens are sent, whichever the caller used."""
    renamed: dict[str, str] = Field(default_factory=dict)
    """Parameters that the server calls otherwise (`repetition_penalty` → `repeat_penalty`)."""
    lacks: tuple[str, ...] = ()
    """Parameters that the server has not: they are not sent, and the caller is warned."""
    tool_choice_required: str | None = "required"
    """The word for "call some tool"; None: the server has none."""
    named_tool_choice: bool = True
    """The server can be told which function to call; others that can be made to call are given that one alone."""
    parallel_tool_calls: bool = True
    """The server knows the parameter `parallel_tool_calls`."""

    names: Literal["none", "user", "all"] = "none"
    """Whose `name` is sent: nobody's, the users', or those of all roles."""
    tool_names: bool = False
    """Tool results carry the function's name."""
    empty_content: Literal["null", "empty", "omit"] = "null"
    """The content of an assistant message that only calls tools."""
    text_parts: bool = False
    """Text alone is sent as a list of parts too; most servers want a string."""
    call_ids: Literal["keep", "alphanumeric9"] = "keep"
    """Mistral's templates refuse ids that are not nine letters and digits."""
    valid_arguments: bool = True
    """The server refuses history whose arguments are no JSON object: broken ones are wrapped as `{"_raw": "…"}`."""

    stream_usage: bool = True
    """Usage in a stream is asked for by `stream_options.include_usage`."""


def _kind(**fields: Any) -> Profile:
    return Profile(**fields)


_LOCAL: dict[str, Any] = {"thinking_switch": "chat_template_kwargs", "thinking_budget": "chat_template_kwargs"}
_SAMPLERS = ("top_k", "min_p", "repetition_penalty")
"""Ways to sample that OpenAI's own interface does not have."""

KINDS: dict[str, Profile] = {
    "openai_compatible": _kind(),
    "vllm": _kind(**_LOCAL, media=("image", "video", "audio"), audio="audio_url"),
    "sglang": _kind(**_LOCAL, media=("image", "video", "audio"), audio="audio_url"),
    "llamacpp": _kind(
        thinking_switch="chat_template_kwargs",
        thinking_budget="none",
        media=("image", "audio"),
        audio="base64",
        renamed={"repetition_penalty": "repeat_penalty"},
    ),
    "ollama": _kind(
        thinking_switch="reasoning_effort",
        thinking_budget="none",
        replay_reasoning="reasoning",
        media=("image", "audio"),
        inline_media=("image",),
        audio="base64",
        lacks=_SAMPLERS,
        named_tool_choice=False,
        tool_choice_required=None,
        parallel_tool_calls=False,
    ),
    "lmstudio": _kind(thinking_switch="none", thinking_budget="none", media=("image",)),
    "dashscope": _kind(max_thinking_budget=38912, replay_reasoning="none", media=("image", "audio", "video")),
    "deepseek": _kind(
        thinking_switch="thinking_type",
        thinking_budget="none",
        replay_turns="tool_turns",
        replay_blank_reasoning=True,
        media=(),
        lacks=(*_SAMPLERS, "seed"),
        parallel_tool_calls=False,
    ),
    "moonshot": _kind(
        thinking_switch="thinking_type",
        thinking_budget="none",
        replay_blank_reasoning=True,
        media=("image", "video"),
        inline_media=("image", "video"),
        tool_choice_required=None,
        lacks=(*_SAMPLERS, "seed"),
    ),
    "zhipu": _kind(
        thinking_switch="thinking_type",
        thinking_budget="none",
        media=("image", "video"),
        lacks=(*_SAMPLERS, "seed"),
        parallel_tool_calls=False,
    ),
    "minimax": _kind(
        thinking_switch="none",
        thinking_budget="none",
        inline_think="interleaved",
        replay_reasoning="think_tags",
        media=(),
    ),
    "siliconflow": _kind(replay_reasoning="none", max_thinking_budget=32768, media=("image", "audio", "video")),
    "openrouter": _kind(
        thinking_switch="reasoning_object",
        thinking_budget="reasoning_max_tokens",
        replay_reasoning="reasoning",
        replay_details=True,
        audio="base64",
    ),
    "groq": _kind(
        thinking_switch="reasoning_effort",
        thinking_budget="none",
        replay_reasoning="reasoning",
        replay_turns="tool_turns",
        media=("image",),
        lacks=_SAMPLERS,
    ),
    "mistral": _kind(
        thinking_switch="none",
        thinking_budget="none",
        replay_reasoning="none",
        media=("image",),
        renamed={"seed": "random_seed"},
        lacks=_SAMPLERS,
        tool_choice_required="any",
        call_ids="alphanumeric9",
        tool_names=True,
        empty_content="empty",
        stream_usage=False,
    ),
    "xai": _kind(
        thinking_switch="none",
        thinking_budget="none",
        replay_reasoning="none",
        media=("image",),
        lacks=_SAMPLERS,
    ),
    "gemini": _kind(
        thinking_switch="reasoning_effort",
        thinking_budget="none",
        replay_reasoning="none",
        media=("image", "audio"),
        audio="base64",
        lacks=(*_SAMPLERS, "seed"),
        parallel_tool_calls=False,
    ),
    "openai": _kind(
        inline_think="off",
        thinking_switch="none",
        thinking_budget="none",
        replay_reasoning="none",
        media=("image", "audio", "file"),
        audio="base64",
        max_tokens_field="max_completion_tokens",
        names="all",
        lacks=_SAMPLERS,
    ),
}
"""Defaults by kind of server. `openai_compatible` is an unknown server: everything is sent as its name says."""
