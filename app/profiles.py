"""What a model and its server can and cannot do: data, never code.

`KINDS` holds a row of defaults for each known kind of server; a model's own `[models.<name>.profile]` overrides it
field by field. Sources: the tables of `docs/profiles.md`.
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

    replay_reasoning: Literal["reasoning_content", "reasoning", "think_tags", "none"] = "reasoning_content"
    """The field in which old reasoning goes back to the model, or inside its content between `think_tags`."""
    replay_turns: Literal["all", "tool_turns"] = "all"
    """Reasoning goes back with every assistant turn, or only with those that called tools."""
    replay_blank_reasoning: bool = False
    """Tool turns need the reasoning field even when no reasoning is known (DeepSeek V3.2+, Kimi)."""

    thinking_switch: Literal[
        "enable_thinking", "chat_template_kwargs", "thinking_type", "reasoning_effort", "reasoning_object", "none"
    ] = "enable_thinking"
    """How `enable_thinking` is said to this server; the next one: how `thinking_budget`."""
    thinking_budget: Literal["thinking_budget", "reasoning_max_tokens", "chat_template_kwargs", "none"] = (
        "thinking_budget"
    )
    max_thinking_budget: int | None = Field(default=None, ge=1)

    media: tuple[MediaKind, ...] = ("image", "audio", "video", "file")
    """What the model takes; anything else is described to it in words, files also by their text."""
    media_form: dict[MediaKind, Literal["url", "base64", "raw"]] = Field(default_factory=dict)
    """`url`: as the caller gave them; `base64`: as data URIs only, remote ones are fetched; `raw`: as bare base64 with
    its format (OpenAI's `input_audio`). A kind that is not here: `url`, files `base64`."""
    max_image_pixels: int | None = Field(default=None, ge=1)
    """Images with more are scaled down. For these limits remote images are fetched."""
    max_image_short_side: int | None = Field(default=None, ge=1)
    max_media_bytes: int | None = Field(default=None, ge=1)
    """Images above it are encoded smaller, anything else is refused."""
    file_text: bool = True
    """A file that the model does not take is read and its text inserted; else only its name is told."""
    name_media: Literal["untaken", "with_tools"] = "with_tools"
    """Media of users named in words: those that the model does not take, or where there are tools all (Qwen-Agent)."""
    video_frames: Literal["video", "images"] = "video"
    """A list of frames: DashScope's `video` part, or one image part each."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    renamed: dict[str, str | None] = Field(default_factory=dict)
    """Parameters that the server calls otherwise (`repetition_penalty` → `repeat_penalty`); None: it has none, and
    the caller is warned."""
    tool_choice_required: str | None = "required"
    """The word for "call some tool"; None: the server has none."""
    named_tool_choice: bool = True
    parallel_tool_calls: bool = True
    """The server knows the parameter `parallel_tool_calls`."""
    names: Literal["none", "user", "all"] = "none"
    """Whose `name` is sent."""
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
_RAW_AUDIO: dict[str, str] = {"audio": "raw"}
_INLINE: dict[str, str] = {"image": "base64", "audio": "raw", "video": "base64"}

KINDS: dict[str, Profile] = {
    "openai_compatible": _kind(),
    "vllm": _kind(**_LOCAL, media=("image", "video", "audio"), media_form=_RAW_AUDIO),
    "sglang": _kind(**_LOCAL, media=("image", "video", "audio"), media_form=_RAW_AUDIO),
    "llamacpp": _kind(
        thinking_switch="chat_template_kwargs",
        thinking_budget="none",
        media=("image", "audio"),
        media_form=_INLINE,
        renamed={"repetition_penalty": "repeat_penalty"},
    ),
    "ollama": _kind(
        thinking_switch="reasoning_effort",
        thinking_budget="none",
        replay_reasoning="reasoning",
        media=("image", "audio"),
        media_form=_INLINE,
        renamed={"top_k": None, "repetition_penalty": None},
        named_tool_choice=False,
        tool_choice_required=None,
        parallel_tool_calls=False,
    ),
    "lmstudio": _kind(thinking_switch="none", thinking_budget="none", media=("image",), media_form=_INLINE),
    "dashscope": _kind(max_thinking_budget=38912, replay_reasoning="none", media=("image", "audio", "video")),
    "deepseek": _kind(
        thinking_switch="thinking_type",
        thinking_budget="none",
        replay_turns="tool_turns",
        replay_blank_reasoning=True,
        media=(),
        renamed={"top_k": None, "repetition_penalty": None, "seed": None},
        parallel_tool_calls=False,
    ),
    "moonshot": _kind(
        thinking_switch="thinking_type",
        thinking_budget="none",
        replay_blank_reasoning=True,
        media=("image", "video"),
        media_form=_INLINE,
        tool_choice_required=None,
        renamed={"top_k": None, "repetition_penalty": None, "seed": None},
    ),
    "zhipu": _kind(
        thinking_switch="thinking_type",
        thinking_budget="none",
        media=("image", "video"),
        renamed={"top_k": None, "repetition_penalty": None, "seed": None},
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
        media_form=_RAW_AUDIO,
    ),
    "groq": _kind(
        thinking_switch="reasoning_effort",
        thinking_budget="none",
        replay_reasoning="reasoning",
        replay_turns="tool_turns",
        media=("image",),
        renamed={"top_k": None, "repetition_penalty": None},
    ),
    "mistral": _kind(
        thinking_switch="none",
        thinking_budget="none",
        replay_reasoning="none",
        media=("image",),
        renamed={"seed": "random_seed", "top_k": None, "repetition_penalty": None},
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
        renamed={"top_k": None, "repetition_penalty": None},
    ),
    "gemini": _kind(
        thinking_switch="reasoning_effort",
        thinking_budget="none",
        replay_reasoning="none",
        media=("image", "audio"),
        media_form=_INLINE,
        renamed={"top_k": None, "repetition_penalty": None, "seed": None},
        parallel_tool_calls=False,
    ),
    "openai": _kind(
        inline_think="off",
        thinking_switch="none",
        thinking_budget="none",
        replay_reasoning="none",
        media=("image", "audio", "file"),
        media_form=_RAW_AUDIO,
        max_tokens_field="max_completion_tokens",
        names="all",
        renamed={"top_k": None, "repetition_penalty": None},
    ),
}
"""Defaults by kind of server. `openai_compatible` is an unknown server: everything is sent as its name says."""
