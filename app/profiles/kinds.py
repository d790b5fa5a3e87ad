"""The default profile of each known kind of server."""

from typing import Any

from app.chat.messages import MediaKind
from app.profiles.profile import ImageFormat, Profile


def _make_profile(**fields: Any) -> Profile:
    """Make the profile of a known kind. Only Gemini knows `extra_content` on calls, and strict servers refuse it."""
    return Profile(**{"replay_extra_content": False, **fields})


_LOCAL: dict[str, Any] = {
    "thinking_switch": "chat_template_kwargs",
    "system": "merged",
    "continuation": "continue_final_message",
}
_ALL: tuple[MediaKind, ...] = ("image", "audio", "video", "file")
"""For servers that do not fetch URLs, or not always: every kind of media is sent as a data URI."""
# vLLM (vllm-project/vllm#38253), SGLang and transformers open images with Pillow.
_PILLOW: tuple[ImageFormat, ...] = ("png", "jpeg", "gif", "webp", "bmp", "tiff")
# stb_image reads no WebP (ggml-org/llama.cpp#19066, abetlen/llama-cpp-python#1140), and no compressed BMP.
_STB: tuple[ImageFormat, ...] = ("png", "jpeg", "gif")
_SAMPLERS = ("top_k", "min_p", "repetition_penalty")
"""Sampling parameters that OpenAI's own API does not have."""

KINDS: dict[str, Profile] = {
    "openai_compatible": Profile(),
    "vllm": _make_profile(
        **_LOCAL,
        thinking_budget="thinking_token_budget",
        media=("image", "video", "audio"),
        image_formats=_PILLOW,
        audio="audio_url",
    ),
    "sglang": _make_profile(
        **_LOCAL,
        thinking_budget="custom_params",
        media=("image", "video", "audio"),
        image_formats=_PILLOW,
        audio="audio_url",
    ),
    "llamacpp": _make_profile(
        system="merged",
        continuation="send",
        thinking_switch="chat_template_kwargs",
        thinking_budget="thinking_budget_tokens",
        media=("image", "audio"),
        image_formats=_STB,
        inline_media=_ALL,
        audio="base64",
        renamed={"repetition_penalty": "repeat_penalty"},
        named_tool_choice=False,
    ),
    "llamacpp_python": _make_profile(
        system="merged",
        thinking_switch="none",
        thinking_budget="none",
        replay_reasoning="none",
        media=("image",),
        image_formats=_STB,
        renamed={"repetition_penalty": "repeat_penalty"},
        tool_choice_required=None,
        parallel_tool_calls=False,
        empty_content="empty",
        stream="as_asked",
        stream_usage=False,
    ),
    "transformers": _make_profile(
        system="merged",
        # transformers 5.24, cli/serving/chat_completion.py: the variables reach the chat template, the other fields
        # named here are ignored, and a field that OpenAI does not have either is refused (422).
        thinking_switch="chat_template_kwargs",
        thinking_budget="none",
        efforts=(),
        tool_choice_none=False,
        response_formats=(),
        lacks=(*_SAMPLERS, "presence_penalty"),
        media=("image",),
        image_formats=_PILLOW,
        tool_choice_required=None,
        named_tool_choice=False,
        parallel_tool_calls=False,
    ),
    "ollama": _make_profile(
        system="merged",
        continuation="send",
        thinking_switch="reasoning_effort",
        # Gitlawb/openclaude issue 1371: an effort other than none is refused ("does not support thinking") for models
        # that do not think. Those that do think without one.
        efforts=("none",),
        thinks_by_default=True,
        thinking_budget="none",
        replay_reasoning="reasoning",
        media=("image", "audio"),
        # openai/openai.go takes data URIs of jpeg, jpg, png and webp; WebP is read since 2026-08 (ollama/ollama#17755).
        image_formats=("png", "jpeg"),
        inline_media=_ALL,
        audio="base64",
        lacks=_SAMPLERS,
        named_tool_choice=False,
        tool_choice_required=None,
        # ollama openai/openai.go (September 2026): ChatCompletionRequest has no tool_choice.
        tool_choice_none=False,
        parallel_tool_calls=False,
    ),
    "lmstudio": _make_profile(
        thinking_switch="none",
        thinking_budget="none",
        system="merged",
        media=("image",),
        inline_media=_ALL,
        image_formats=(
            "png",
            "jpeg",
        ),  # others: "'url' field must be a base64 encoded image" (bug tracker #1027, #1839)
        # lmstudio-ai/lmstudio-bug-tracker issue 189: "'response_format.type' must be 'json_schema' or 'text'".
        response_formats=("json_schema",),
    ),
    "dashscope": _make_profile(
        max_thinking_budget=38912,
        # cloudwego/eino issue 994: "does not support being set to required or object in thinking mode". Models that
        # think by default differ: thinks_by_default says so for one of them.
        forced_choice_while_thinking="auto",
        cache_control=True,
        continuation="partial",
        media=("image", "audio", "video"),
        # Model Studio's guide "Visual understanding", limits of images; GIF, which it does not name, is passed on.
        image_formats=(*_PILLOW, "heic"),
    ),
    "deepseek": _make_profile(
        continuation="prefix",
        thinking_switch="thinking_type",
        thinking_budget="none",
        # api-docs.deepseek.com/guides/thinking_mode (November 2026): on by default; these efforts mean these levels.
        thinks_by_default=True,
        efforts={
            **{"minimal": "low", "low": "low", "medium": "high", "high": "high", "xhigh": "high", "max": "max"},
            "ultra": "max",
        },
        # deepseek-ai/DeepSeek-V3 issue 1376: "Thinking mode does not support this tool_choice".
        forced_choice_while_thinking="auto",
        # api-docs.deepseek.com/api/create-chat-completion: text and json_object; "This response_format type is
        # unavailable".
        response_formats=("json_object",),
        replay_turns="tool_turns",
        replay_blank_reasoning=True,
        restore_reasoning=True,
        # api-docs.deepseek.com/guides/vision (since September 2026): deepseek-flash takes images. For deepseek-v4-pro,
        # which refuses them, the model's profile says media = [].
        media=("image",),
        lacks=(*_SAMPLERS, "seed"),
        parallel_tool_calls=False,
    ),
    "moonshot": _make_profile(
        continuation="partial",
        thinking_switch="thinking_type",
        thinking_budget="none",
        # docs.rs/synaps-engine, catalog/kimi.rs (from platform.kimi.ai): K2.5 and later think by default, K3 always.
        thinks_by_default=True,
        # HKUDS/nanobot issue 3939: "cannot specify both 'thinking' and 'reasoning_effort'".
        effort_excludes=("switch",),
        # can1357/oh-my-pi issues 827, 1077: "tool_choice 'specified' is incompatible with thinking enabled". K3 takes
        # required.
        forced_choice_while_thinking="auto",
        replay_blank_reasoning=True,
        # earendil-works/pi PR 4178: K2.6 takes "" as missing; a space is enough.
        blank_reasoning=" ",
        # lobehub/lobehub PR 8419, wiseria-ai-labs/pie-ai-agent PR 115: "with role 'assistant' must not be empty".
        thought_only_turns=False,
        restore_reasoning=True,
        media=("image", "video"),
        inline_media=_ALL,
        tool_choice_required=None,
        lacks=(*_SAMPLERS, "seed"),
    ),
    "zhipu": _make_profile(
        thinking_switch="thinking_type",
        thinking_budget="none",
        # java.agentscope.io/v2/en/integration/model/glm (November 2026): GLM-4.7 and GLM-5 think by default, and
        # tool_choice is only auto.
        thinks_by_default=True,
        tool_choice_required=None,
        named_tool_choice=False,
        tool_choice_none=False,
        media=("image", "video"),
        lacks=(*_SAMPLERS, "seed"),
        parallel_tool_calls=False,
    ),
    "minimax": _make_profile(
        system="merged",
        thinking_switch="none",
        thinking_budget="none",
        inline_think="interleaved",
        replay_reasoning="think_tags",
        restore_reasoning=True,
        media=(),
    ),
    "siliconflow": _make_profile(replay_reasoning="none", max_thinking_budget=32768, media=("image", "audio", "video")),
    "openrouter": _make_profile(
        thinking_switch="reasoning_object",
        thinking_budget="reasoning_max_tokens",
        # omeryasirkucuk/amx PR 66: 'Only one of "reasoning.effort" and "reasoning.max_tokens" can be specified'.
        effort_excludes=("budget",),
        replay_reasoning="reasoning",
        replay_details=True,
        cache_control=True,
        audio="base64",
    ),
    "groq": _make_profile(
        thinking_switch="reasoning_effort",
        # earendil-works/pi issue 1745, iamsrikanthnani/pluely PR 219: Qwen takes none and default, gpt-oss low, medium
        # and high, Llama refuses every effort.
        efforts=(),
        thinking_budget="none",
        replay_reasoning="reasoning",
        replay_turns="tool_turns",
        media=("image",),
        max_stop_words=4,
        lacks=_SAMPLERS,
    ),
    "mistral": _make_profile(
        system="merged",
        alternate=True,
        assistant_after_tool=True,
        continuation="prefix",
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
    "xai": _make_profile(
        thinking_switch="none",
        thinking_budget="none",
        replay_reasoning="none",
        media=("image",),
        image_formats=("png", "jpeg"),  # docs.x.ai, "Image understanding": jpg/jpeg or png
        lacks=_SAMPLERS,
    ),
    "gemini": _make_profile(
        thinking_switch="reasoning_effort",
        thinking_budget="google_thinking_config",
        # ai.google.dev/gemini-api/docs/openai (November 2026): these efforts, and either an effort or a budget.
        efforts=("none", "minimal", "low", "medium", "high"),
        effort_excludes=("budget",),
        # ai.google.dev/gemini-api/docs/thought-signatures, FAQ: Gemini 3 refuses a turn whose first call has no
        # signature, and skips the check of this one.
        missing_signature="skip_thought_signature_validator",
        restore_reasoning=True,
        replay_reasoning="none",
        media=("image", "audio"),
        # Google's documentation of image understanding; Gemini 2 and later refuse GIF.
        image_formats=("png", "jpeg", "webp", "heic", "heif"),
        inline_media=_ALL,
        audio="base64",
        lacks=(*_SAMPLERS, "seed"),
        parallel_tool_calls=False,
        replay_extra_content=True,
    ),
    "openai": _make_profile(
        inline_think="off",
        thinking_switch="none",
        thinking_budget="none",
        replay_reasoning="none",
        media=("image", "audio", "file"),
        audio="base64",
        max_tokens_field="max_completion_tokens",
        max_stop_words=4,
        names="all",
        lacks=_SAMPLERS,
    ),
}
"""Default profiles by kind of server. `openai_compatible` is an unknown server: parameters keep their names."""
