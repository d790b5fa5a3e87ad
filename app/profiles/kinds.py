"""What is known about each kind of server: how it differs from an unknown server, why, and who says so.

A source is a page, an issue or pull request of a public project, a file of a package or repository, or "run by hand"
with the version. A month is that of the version that was read, where it matters. `UNVERIFIED` is there where no
source is: such a fact is what the API of the others has, or what users reported.
"""

from typing import Any

from msgspec import Struct

from app.chat.messages import MediaKind
from app.profiles.profile import ImageFormat, Profile

UNVERIFIED = "unverified (2026-11-26)"


class Fact(Struct, frozen=True):
    """The value of one field of a profile."""

    value: Any
    why: str
    source: str


_ALL: tuple[MediaKind, ...] = ("image", "audio", "video", "file")
_PILLOW: tuple[ImageFormat, ...] = ("png", "jpeg", "gif", "webp", "bmp", "tiff")
_SAMPLERS = ("top_k", "min_p", "repetition_penalty")
"""Sampling parameters that OpenAI's own API does not have."""

_VLLM = "vllm-project/vllm, vllm/entrypoints/openai/chat_completion/protocol.py (November 2026)"
_SGLANG = "sglang 0.5.23, srt/entrypoints/openai/protocol.py"
_LLAMACPP = "ggml-org/llama.cpp, tools/server/server-common.cpp"
_LLAMA_CPP_PYTHON = "llama-cpp-python 0.3.36, llama_cpp/server/types.py"
_TRANSFORMERS = "transformers 5.24, cli/serving/chat_completion.py"
_OLLAMA = "ollama/ollama, openai/openai.go (September 2026)"
_DEEPSEEK_THINKING = "api-docs.deepseek.com/guides/thinking_mode (November 2026)"
_DEEPSEEK_API = "api-docs.deepseek.com/api/create-chat-completion"
_KIMI_API = "platform.kimi.ai/docs/openapi.json"
_ZAI_API = "docs.z.ai/api-reference/llm/chat-completion"
_MINIMAX_API = "platform.minimax.io/docs/api-reference/text-openai-api"
_SILICONFLOW_API = "docs.siliconflow.cn/docs/api/chat-completions-post"
_SILICONFLOW_MEDIA = "docs.siliconflow.cn/cn/userguide/capabilities/multimodal-vision.md"
_OPENROUTER_REASONING = "openrouter.ai/docs/use-cases/reasoning-tokens"
_GROQ_API = "groq 1.7.0, types/chat/completion_create_params.py"
_MISTRAL_API = "mistralai 3.7.0, client/models/chatcompletionstreamrequest.py"
_GEMINI_OPENAI = "ai.google.dev/gemini-api/docs/openai (November 2026)"
_OPENAI_API = "openai 3.57.0, types/chat/completion_create_params.py"
_STB_IMAGE = "ggml-org/llama.cpp issue 19066, abetlen/llama-cpp-python issue 1140"

_NO_EXTRA_CONTENT = Fact(
    False,
    "only Gemini gives texts and calls an `extra_content`; strict servers refuse unknown fields",
    "ai.google.dev/gemini-api/docs/thought-signatures; janhq/jan issue 8136 (Groq)",
)
_MERGED = Fact(
    "merged",
    'templates of models, such as those of Qwen 3.5 and 3.6, refuse others: "System message must be at the beginning"',
    "vllm-project/vllm issue 41114; nathaninline/ajean issue 26 (llama-server)",
)
_NEEDS_USER = Fact(
    True,
    'templates of models, such as those of Qwen 3.5 and later, refuse others: "No user query found in messages."',
    "Qwen/Qwen3.5-35B-A3B, chat_template.jinja",
)
_IMAGES_BY_PILLOW = Fact(_PILLOW, "images are opened with Pillow", "vllm-project/vllm issue 38253")
_IMAGES_BY_STB = Fact(
    ("png", "jpeg", "gif"), "images are opened with stb_image, which reads neither WebP nor compressed BMP", _STB_IMAGE
)
_NO_BUDGET = "the request has no field for a budget"


def _make_facts(**facts: Fact) -> dict[str, Fact]:
    return {"replay_extra_content": _NO_EXTRA_CONTENT, **facts}


FACTS: dict[str, dict[str, Fact]] = {
    "openai_compatible": {},
    "vllm": _make_facts(
        needs_user=_NEEDS_USER,
        caches_prefixes=Fact(
            True,
            "automatic prefix caching is on by default",
            "docs.vllm.ai/en/latest/features/automatic_prefix_caching",
        ),
        system=_MERGED,
        thinking_switch=Fact("chat_template_kwargs", "the switch is a variable of the model's chat template", _VLLM),
        thinking_budget=Fact(
            "thinking_token_budget",
            "the field of that name; older versions ignore it",
            f"{_VLLM}; earendil-works/pi issue 7640",
        ),
        continuation=Fact(
            "continue_final_message", "the field of that name, with `add_generation_prompt` false", _VLLM
        ),
        media=Fact(
            ("image", "video", "audio"),
            "the parts that it parses; it has none for files",
            "vllm 0.33.0, renderers/chat_utils/chat_message.py (MM_PARSER_MAP)",
        ),
        audio=Fact(
            "audio_url", "takes URLs and data URIs", "vllm 0.33.0, renderers/chat_utils/chat_message.py (MM_PARSER_MAP)"
        ),
        image_formats=_IMAGES_BY_PILLOW,
        reports_length=Fact(
            False,
            "a reply with calls ends with `tool_calls`, also where it was cut at its limit",
            "vllm-project/vllm issue 58228 and PR 46303",
        ),
    ),
    "sglang": _make_facts(
        needs_user=_NEEDS_USER,
        caches_prefixes=Fact(
            True,
            "RadixAttention keeps the prefixes of earlier requests",
            "sglang 0.5.23, srt/mem_cache/radix_cache.py",
        ),
        system=_MERGED,
        thinking_switch=Fact("chat_template_kwargs", "the switch is a variable of the model's chat template", _SGLANG),
        thinking_budget=Fact(
            "custom_params",
            "`custom_params.thinking_budget`, which `--enable-strict-thinking` enforces",
            "sglang 0.5.23, srt/constrained/grammar_manager.py",
        ),
        continuation=Fact(
            "continue_final_message",
            "without the field, a last assistant message becomes one of the user",
            "sglang 0.5.23, srt/entrypoints/openai/serving_chat.py",
        ),
        media=Fact(("image", "video", "audio"), "the parts that it parses; it has none for files", _SGLANG),
        audio=Fact("audio_url", "takes URLs and data URIs", _SGLANG),
        image_formats=Fact(_PILLOW, "images are opened with Pillow", "sglang 0.5.23, srt/utils/common.py"),
    ),
    "llamacpp": _make_facts(
        needs_user=_NEEDS_USER,
        caches_prefixes=Fact(True, "`cache_prompt` is true by default", "ggml-org/llama.cpp, tools/server/README.md"),
        system=_MERGED,
        thinking_switch=Fact("chat_template_kwargs", "`enable_thinking` in it must be a boolean", _LLAMACPP),
        thinking_budget=Fact(
            "thinking_budget_tokens",
            "a version reads this field or `reasoning_budget_tokens`",
            "ollama/ollama PR 17566, which sends both to llama-server",
        ),
        continuation=Fact("send", "a last assistant message is always continued", _LLAMACPP),
        media=Fact(("image", "audio"), "the parts that it parses", _LLAMACPP),
        inline_media=Fact(_ALL, "it fetches URLs only if it was built and started so", _LLAMACPP),
        audio=Fact("base64", "`input_audio` with the format wav or mp3", _LLAMACPP),
        image_formats=_IMAGES_BY_STB,
        renamed=Fact(
            {"repetition_penalty": "repeat_penalty"},
            "the name in the requests of llama-server",
            "ggml-org/llama.cpp, tools/server/README.md",
        ),
        named_tool_choice=Fact(
            False,
            "a named function is read as `auto`",
            "ggml-org/llama.cpp issue 26535; run by hand, 2026-11-22",
        ),
    ),
    "llamacpp_python": _make_facts(
        system=_MERGED,
        thinking_switch=Fact("none", "the request has no field for a switch", _LLAMA_CPP_PYTHON),
        thinking_budget=Fact("none", _NO_BUDGET, _LLAMA_CPP_PYTHON),
        replay_reasoning=Fact(
            "none", "messages have no field for reasoning", "llama-cpp-python 0.3.36, llama_cpp/llama_types.py"
        ),
        media=Fact(
            ("image",), "its chat handlers for models with eyes read images", "llama-cpp-python 0.3.36, README.md"
        ),
        image_formats=_IMAGES_BY_STB,
        renamed=Fact({"repetition_penalty": "repeat_penalty"}, "the name in its requests", _LLAMA_CPP_PYTHON),
        tool_choice_required=Fact(
            None,
            "`required` is ignored or fails an assertion, depending on the chat format",
            "llama-cpp-python 0.3.36, llama_cpp/llama_chat_format.py",
        ),
        parallel_tool_calls=Fact(False, "the request has no such field", _LLAMA_CPP_PYTHON),
        empty_content=Fact(
            "empty", "`content: null` is a validation error with status 500", "run by hand, 0.3.36, 2026-11-22"
        ),
        stream=Fact("as_asked", "only a reply that is not streamed has a usage", "run by hand, 0.3.36, 2026-11-22"),
        stream_usage=Fact(False, "`stream_options` is not known", _LLAMA_CPP_PYTHON),
    ),
    "transformers": _make_facts(
        system=_MERGED,
        thinking_switch=Fact("chat_template_kwargs", "its variables reach the chat template", _TRANSFORMERS),
        thinking_budget=Fact("none", "a field that is not known is refused (422)", _TRANSFORMERS),
        efforts=Fact((), "`reasoning_effort` is ignored", _TRANSFORMERS),
        lacks=Fact(
            (*_SAMPLERS, "presence_penalty"), "the samplers are refused (422), the penalty is ignored", _TRANSFORMERS
        ),
        tool_choice_required=Fact(None, "`tool_choice` is ignored", _TRANSFORMERS),
        named_tool_choice=Fact(False, "`tool_choice` is ignored", _TRANSFORMERS),
        tool_choice_none=Fact(False, "`tool_choice` is ignored", _TRANSFORMERS),
        parallel_tool_calls=Fact(False, "the field is ignored", _TRANSFORMERS),
        response_formats=Fact((), "`response_format` is ignored", _TRANSFORMERS),
        media=Fact(
            ("image", "video"),
            "what models with eyes read; of any other part the text alone is read, also of audio for most models",
            "transformers 5.24, cli/serving/utils.py (get_processor_inputs_from_messages)",
        ),
        image_formats=Fact(_PILLOW, "images are opened with Pillow", "transformers 5.24, image_utils.py"),
    ),
    "ollama": _make_facts(
        system=Fact(
            "merged",
            "system messages anywhere become one before all others",
            "ollama/ollama, template/template.go (collate)",
        ),
        thinking_switch=Fact("reasoning_effort", "an effort switches thinking on, `none` off", _OLLAMA),
        thinking_budget=Fact("none", _NO_BUDGET, f"{_OLLAMA}; ollama/ollama PR 17566, which proposes one"),
        efforts=Fact(
            ("none",),
            'any other is refused for models that do not think: "does not support thinking"',
            "Gitlawb/openclaude issue 1371",
        ),
        thinks_by_default=Fact(True, "models that think do so without an effort", "Gitlawb/openclaude issue 1371"),
        replay_reasoning=Fact("reasoning", "the field of a message", _OLLAMA),
        continuation=Fact("send", "a last assistant message is always continued", "ollama/ollama issue 6778"),
        media=Fact(("image", "audio"), "the parts that it parses", "ollama/ollama, openai/openai.go (August 2026)"),
        inline_media=Fact(_ALL, "a URL is refused: invalid image input", _OLLAMA),
        audio=Fact("base64", "`input_audio` with its format", "ollama/ollama, openai/openai.go (August 2026)"),
        image_formats=Fact(
            ("png", "jpeg"),
            "data URIs of jpeg, jpg, png and webp are taken, but WebP is read since August 2026 only",
            f"{_OLLAMA}; ollama/ollama PR 17755",
        ),
        lacks=Fact(_SAMPLERS, "the request has no such fields", _OLLAMA),
        tool_choice_required=Fact(None, "the request has no `tool_choice`", _OLLAMA),
        named_tool_choice=Fact(False, "the request has no `tool_choice`", _OLLAMA),
        tool_choice_none=Fact(False, "the request has no `tool_choice`", _OLLAMA),
        parallel_tool_calls=Fact(False, "the request has no such field", _OLLAMA),
    ),
    "lmstudio": _make_facts(
        needs_user=_NEEDS_USER,
        system=_MERGED,
        thinking_switch=Fact(
            "none",
            "only `/v1/responses` documents a switch, for gpt-oss",
            "lmstudio.ai/docs/developer/api-changelog (0.3.29)",
        ),
        thinking_budget=Fact("none", "no budget is documented", "lmstudio.ai/docs/api/openai-api"),
        media=Fact(("image",), "chat completions take text and images", "lmstudio.ai/docs/api/openai-api"),
        inline_media=Fact(
            _ALL,
            "\"'url' field must be a base64 encoded image\"",
            "lmstudio-ai/lmstudio-bug-tracker issues 1027, 1839",
        ),
        image_formats=Fact(
            ("png", "jpeg"),
            "others are refused with the same message",
            "lmstudio-ai/lmstudio-bug-tracker issues 1027, 1839",
        ),
        response_formats=Fact(
            ("json_schema",),
            "\"'response_format.type' must be 'json_schema' or 'text'\"",
            "lmstudio-ai/lmstudio-bug-tracker issue 189",
        ),
        formats_while_thinking=Fact(
            "explain",
            "the schema is enforced on the reasoning, and there is no content",
            "lmstudio-ai/lmstudio-bug-tracker issues 1773, 1783",
        ),
        named_tool_choice=Fact(
            False,
            "\"Invalid tool_choice type: 'object'. Supported string values: none, auto, required\"",
            "earendil-works/pi issue 4266; 567-labs/instructor PR 2051",
        ),
    ),
    "dashscope": _make_facts(
        caches_prefixes=Fact(
            True, "the implicit cache is on for its models", "help.aliyun.com/zh/model-studio/context-cache"
        ),
        max_thinking_budget=Fact(
            38912,
            '"must be a positive integer and not greater than 38912"',
            "alibabacloud.com/help/model-studio/error-code; QwenLM/Qwen-Agent PR 946",
        ),
        forced_choice_while_thinking=Fact(
            "auto",
            '"does not support being set to required or object in thinking mode"; models that think by default differ, '
            "and `thinks_by_default` says so for one of them",
            "cloudwego/eino issue 994",
        ),
        formats_while_thinking=Fact(
            "explain",
            '"Json mode response is not supported when enable_thinking is true"; for models that take both, the '
            'model\'s profile says "send"',
            "presenton/presenton issue 184",
        ),
        cache_control=Fact(True, "marks make an explicit cache", "alibabacloud.com/help/model-studio/context-cache"),
        continuation=Fact("partial", "that field of the message", "langchain-ai/langchain PR 30108"),
        media=Fact(
            ("image", "audio", "video"),
            "what Qwen's models with eyes and ears take; files need an upload first",
            "Alibaba Cloud Model Studio, guides Visual understanding and Omni-modal",
        ),
        image_formats=Fact(
            (*_PILLOW, "heic"),
            "the formats that the guide names; GIF, which it does not name, is passed on",
            "Alibaba Cloud Model Studio, guide Visual understanding",
        ),
    ),
    "deepseek": _make_facts(
        caches_prefixes=Fact(True, "context caching on disk is on for all", "api-docs.deepseek.com/guides/kv_cache"),
        thinking_switch=Fact("thinking_type", '`thinking: {"type": "enabled"}` or `"disabled"`', _DEEPSEEK_THINKING),
        thinks_by_default=Fact(True, "thinking is on unless a request switches it off", _DEEPSEEK_THINKING),
        thinking_budget=Fact("none", "thinking has no budget", _DEEPSEEK_THINKING),
        efforts=Fact(
            {
                **{"minimal": "low", "low": "low", "medium": "high", "high": "high", "xhigh": "high", "max": "max"},
                "ultra": "max",
            },
            "the levels that these efforts mean",
            _DEEPSEEK_THINKING,
        ),
        forced_choice_while_thinking=Fact(
            "auto", '"Thinking mode does not support this tool_choice"', "deepseek-ai/DeepSeek-V3 issue 1376"
        ),
        replay_blank_reasoning=Fact(
            "all",
            "after a call, every turn up to the user's next message needs its reasoning; that of others is ignored",
            f"{_DEEPSEEK_THINKING}; MoonshotAI/kimi-cli issue 2141; openclaw/openclaw issue 73417",
        ),
        blank_reasoning=Fact(
            " ", "V4 Pro takes an empty text as missing; a space is enough", "NousResearch/hermes-agent PR 17341"
        ),
        restore_reasoning=Fact(
            True, '"The reasoning_content in the thinking mode must be passed back to the API."', _DEEPSEEK_THINKING
        ),
        continuation=Fact(
            "prefix",
            "that field of the message, on the /beta URL only",
            "api-docs.deepseek.com/news/news0725",
        ),
        response_formats=Fact(
            ("json_object",),
            '"This response_format type is unavailable" for others than text and json_object',
            _DEEPSEEK_API,
        ),
        media=Fact(
            ("image",),
            "deepseek-flash takes images; deepseek-v4-pro refuses them: its profile says `media = []`",
            "api-docs.deepseek.com/guides/vision (since September 2026)",
        ),
        max_function_name=Fact(
            64,
            '"string too long. Expected a string with maximum length 64"; dots and others do not match the pattern',
            "mrexodia/ida-pro-mcp issue 129; zed-industries/zed issue 57531",
        ),
        lacks=Fact((*_SAMPLERS, "seed"), "the request has no such fields", _DEEPSEEK_API),
        parallel_tool_calls=Fact(False, "the request has no such field", _DEEPSEEK_API),
    ),
    "moonshot": _make_facts(
        caller_fields=Fact(
            ("prompt_cache_key", "safety_identifier"),
            "parameters of the request",
            "platform.moonshot.ai/docs/api/chat; MoonshotAI/kimi-cli PR 12",
        ),
        thinking_switch=Fact("thinking_type", '`thinking: {"type": "enabled"}` or `"disabled"`', _KIMI_API),
        thinks_by_default=Fact(
            True, "K2.5 and later think by default, K3 always", f"{_KIMI_API}; docs.rs/synaps-engine, catalog/kimi.rs"
        ),
        thinking_budget=Fact("none", _NO_BUDGET, _KIMI_API),
        effort_excludes=Fact(
            ("switch",), "\"cannot specify both 'thinking' and 'reasoning_effort'\"", "HKUDS/nanobot issue 3939"
        ),
        forced_choice_while_thinking=Fact(
            "auto",
            "\"tool_choice 'specified' is incompatible with thinking enabled\"; K3 takes `required`",
            "can1357/oh-my-pi issues 827, 1077",
        ),
        tool_choice_required=Fact(
            None,
            "`required` is not supported before K3",
            "platform.moonshot.ai/docs/guide/migrating-from-openai-to-kimi#about-tool_choice",
        ),
        replay_blank_reasoning=Fact(
            True,
            "every turn with calls needs the field",
            "litellm 1.110.2, llms/moonshot/chat/transformation.py (fill_reasoning_content)",
        ),
        blank_reasoning=Fact(
            " ", "K2.6 takes an empty text as missing; a space is enough", "earendil-works/pi PR 4178"
        ),
        thought_only_turns=Fact(
            False,
            "\"with role 'assistant' must not be empty\"",
            "lobehub/lobehub PR 8419; wiseria-ai-labs/pie-ai-agent PR 115",
        ),
        restore_reasoning=Fact(
            True,
            "a turn with calls is refused without its reasoning, and answered worse with a blank one",
            "litellm 1.110.2, llms/moonshot/chat/transformation.py (fill_reasoning_content)",
        ),
        continuation=Fact("partial", "that field of the message", "platform.kimi.ai/docs/api/partial"),
        media=Fact(("image", "video"), "the parts of a message", _KIMI_API),
        inline_media=Fact(
            _ALL,
            "the guide sends data URIs, and some models take no URLs",
            "platform.kimi.ai/docs/guide/use-kimi-vision-model; docs.cloudbase.net/en/ai/model/multimodal",
        ),
        parameter_alternatives=Fact(
            False,
            "the top must have the type object, beside which there may be no `anyOf`",
            "MoonshotAI/kimi-code issue 2661; MoonshotAI/kimi-code PR 2662",
        ),
        typed_parameters=Fact(
            True,
            '"not a valid moonshot flavored json schema": "when using anyOf, type should be defined in anyOf items"; a '
            "schema without a type is refused too",
            "openclaw/openclaw issue 113130; nicobailon/pi-subagents issue 127; MoonshotAI/kimi-cli issue 2621",
        ),
        max_function_name=Fact(64, "as OpenAI's API; a limit of its own is not documented", _OPENAI_API),
        function_names=Fact(
            "letter_first",
            '"function name is invalid, must start with a letter and can contain letters, numbers, underscores, and '
            'dashes"',
            "MoonshotAI/kimi-cli issues 1773, 2531",
        ),
        max_stop_words=Fact(5, "`stop` has at most five texts", _KIMI_API),
        max_temperature=Fact(
            1.0, "the range is [0, 1]", "platform.kimi.ai/docs/guide/migrating-from-openai-to-kimi (November 2026)"
        ),
        lacks=Fact((*_SAMPLERS, "seed"), "the request has no such fields", _KIMI_API),
    ),
    "zhipu": _make_facts(
        needs_user=Fact(
            True,
            'others are refused: "The messages parameter is illegal" (1214)',
            "anomalyco/opencode issue 2557; continuedev/continue issue 13259",
        ),
        thinking_switch=Fact("thinking_type", '`thinking: {"type": "enabled"}` or `"disabled"`', _ZAI_API),
        thinks_by_default=Fact(
            True,
            "GLM-4.7 and GLM-5 think by default",
            "java.agentscope.io/v2/en/integration/model/glm (November 2026)",
        ),
        thinking_budget=Fact("none", _NO_BUDGET, _ZAI_API),
        tool_choice_required=Fact(None, "`tool_choice` is only `auto`", _ZAI_API),
        named_tool_choice=Fact(False, "`tool_choice` is only `auto`", _ZAI_API),
        tool_choice_none=Fact(False, "`tool_choice` is only `auto`", _ZAI_API),
        parallel_tool_calls=Fact(False, "the request has no such field", _ZAI_API),
        response_formats=Fact(("json_object",), "`response_format` is only `text` or `json_object`", _ZAI_API),
        media=Fact(("image", "video"), "what GLM-4.5V and 4.6V take; a file only by its URL, and alone", _ZAI_API),
        max_stop_words=Fact(4, "`stop` has at most four texts, and reads perhaps the first alone", _ZAI_API),
        max_temperature=Fact(
            1.0, "'The temperature parameter is illegal.：限制数值范围[0,1]' (1210)", "theopenco/llmgateway PR 3268"
        ),
        lacks=Fact((*_SAMPLERS, "seed"), "the request has no such fields", _ZAI_API),
    ),
    "minimax": _make_facts(
        system=Fact(
            "merged",
            'two system messages are refused: "invalid chat setting (2013)"',
            "openclaw/openclaw issue 19386; MiniMax-AI/MiniMax-M2 issue 27",
        ),
        thinking_switch=Fact(
            "adaptive",
            "M3 takes `thinking.type` `adaptive` and `disabled`; M2, which always thinks, ignores it",
            "java.agentscope.io/v2/en/integration/model/minimax; NousResearch/hermes-agent PR 46648; "
            "tetsuo-ai/agenc-core PR 2389",
        ),
        thinking_budget=Fact("none", "no budget is documented", _MINIMAX_API),
        inline_think=Fact("interleaved", "reasoning is in `<think>` inside the content, between texts", _MINIMAX_API),
        replay_reasoning=Fact("think_tags", "the content must be sent back whole, with its `<think>`", _MINIMAX_API),
        restore_reasoning=Fact(True, "the chain of reasoning must not break in turns with calls", _MINIMAX_API),
        media=Fact(
            (),
            'M2 reads text alone; for M3, which takes images, the model\'s profile says `media = ["image"]`',
            "docs.getbifrost.ai/providers/supported-providers/minimax",
        ),
    ),
    "siliconflow": _make_facts(
        replay_reasoning=Fact("none", "messages have no field for reasoning", UNVERIFIED),
        max_thinking_budget=Fact(32768, "`thinking_budget` is 128 to 32768", _SILICONFLOW_API),
        max_stop_words=Fact(4, "`stop` has at most four texts", _SILICONFLOW_API),
        media=Fact(("image", "audio", "video"), "the parts of its messages", _SILICONFLOW_MEDIA),
        audio=Fact("audio_url", "a URL or data URI", _SILICONFLOW_MEDIA),
    ),
    "openrouter": _make_facts(
        web_search_options=Fact(True, "for models whose provider searches the web", "openrouter.ai/docs/web-search"),
        reports_cost=Fact(True, "`usage.cost`, in credits", "openrouter.ai/docs/use-cases/usage-accounting"),
        session_header=Fact(
            "x-session-id",
            "requests with the same value go to the same provider",
            "openrouter.ai/docs/guides/best-practices/prompt-caching; BerriAI/litellm issue 39153",
        ),
        caches_prefixes=Fact(
            True,
            "providers cache, and a session stays at one of them",
            "openrouter.ai/docs/guides/best-practices/prompt-caching",
        ),
        efforts=Fact(
            ("minimal", "low", "medium", "high", "xhigh", "max"),
            "the words of its SDKs beside `none`; each provider gets one that it knows",
            "openrouter.ai/docs/client-sdks/typescript/models/reasoningeffort.md; theopenco/llmgateway issue 2558",
        ),
        thinking_switch=Fact("reasoning_object", "`reasoning.enabled`", _OPENROUTER_REASONING),
        thinking_budget=Fact("reasoning_max_tokens", "`reasoning.max_tokens`", _OPENROUTER_REASONING),
        effort_excludes=Fact(
            ("budget",),
            '\'Only one of "reasoning.effort" and "reasoning.max_tokens" can be specified\'',
            f"omeryasirkucuk/amx PR 66; {_OPENROUTER_REASONING}",
        ),
        replay_reasoning=Fact("reasoning", "the field of a message", _OPENROUTER_REASONING),
        replay_details=Fact(
            True,
            "providers refuse a turn whose signed details are missing or changed",
            f"{_OPENROUTER_REASONING}; OpenRouterTeam/ai-sdk-provider, src/chat/signature-roundtrip.test.ts",
        ),
        cache_control=Fact(
            True, "marks are passed on to the providers", "litellm 1.110.2, llms/openrouter/chat/transformation.py"
        ),
        audio=Fact("base64", "URLs are not taken for audio", "openrouter.ai/docs/features/multimodal/audio"),
    ),
    "groq": _make_facts(
        thinking_switch=Fact("reasoning_effort", "an effort is the only switch, for some models", _GROQ_API),
        efforts=Fact(
            (),
            "Qwen takes none and default, gpt-oss low, medium and high, Llama refuses every effort",
            f"earendil-works/pi issue 1745; iamsrikanthnani/pluely PR 219; {_GROQ_API}",
        ),
        thinking_budget=Fact("none", _NO_BUDGET, _GROQ_API),
        replay_reasoning=Fact(
            "reasoning",
            "\"property 'reasoning_content' is unsupported\"",
            "janhq/jan issue 8136; groq 1.7.0, types/chat/chat_completion_assistant_message_param.py",
        ),
        replay_turns=Fact(
            "tool_turns",
            "it is used in turns with calls; models that do not reason refuse the field",
            "karthink/gptel issue 774; groq 1.7.0, types/chat/chat_completion_assistant_message_param.py",
        ),
        media=Fact(("image",), "content parts are texts and images", "groq 1.7.0, types/chat"),
        max_stop_words=Fact(4, "`stop` has at most four texts", _GROQ_API),
        lacks=Fact(_SAMPLERS, "the request has no such fields, and unknown ones are refused", _GROQ_API),
    ),
    "mistral": _make_facts(
        system=Fact("merged", "templates take one system message, before all others", "charmbracelet/crush issue 279"),
        alternate=Fact(
            True,
            '"conversation roles must alternate user and assistant roles"',
            "charmbracelet/crush issue 279; microsoft/autogen issue 1037",
        ),
        assistant_after_tool=Fact(
            True,
            "\"Unexpected role 'user' after role 'tool'\"",
            "datapizza-labs/datapizza-ai issue 98; mistralai/mistral-common issue 169",
        ),
        continuation=Fact("prefix", "that field of the message", "mistralai 3.7.0, client/models/assistantmessage.py"),
        thinking_switch=Fact(
            "none",
            "few models take `reasoning_effort`, others refuse it",
            "vercel/ai, packages/mistral/src/mistral-chat-language-model.ts",
        ),
        thinking_budget=Fact("none", _NO_BUDGET, _MISTRAL_API),
        replay_reasoning=Fact(
            "none",
            "an assistant message has no field for reasoning, and unknown fields are refused",
            "mistralai 3.7.0, client/models/assistantmessage.py; Gage-Technologies/mistral-go PR 2",
        ),
        media=Fact(("image",), "images by URL or data URI; audio is a part of its own", "vercel/ai, packages/mistral"),
        renamed=Fact({"seed": "random_seed"}, "the name of the field", _MISTRAL_API),
        lacks=Fact(
            ("min_p", "logit_bias", "logprobs", "top_logprobs"),
            "the request has no such fields, and unknown ones are refused",
            _MISTRAL_API,
        ),
        tool_choice_required=Fact("any", "the word of all versions; the newest also take `required`", _MISTRAL_API),
        max_function_name=Fact(
            64,
            '"must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of 64"',
            "Kochava-Studios/witsy PR 164",
        ),
        call_ids=Fact(
            "alphanumeric9",
            "templates want ids of nine letters or digits",
            "earendil-works/pi, packages/ai (normalizeToolCallId); vllm-project/vllm issue 47734",
        ),
        tool_names=Fact(
            True,
            "tool messages have a `name`, which templates read; no other message may have one",
            "mistralai 3.7.0, client/models/toolmessage.py; litellm 1.110.2, llms/mistral/chat/transformation.py",
        ),
        empty_content=Fact(
            "empty",
            "an assistant message without a text is taken with an empty one",
            "vercel/ai, packages/mistral/src/convert-to-mistral-chat-messages.ts",
        ),
        stream_usage=Fact(False, "`stream_options` is refused; the usage comes anyway", "dnakov/anon-kode issue 53"),
    ),
    "xai": _make_facts(
        reports_cost=Fact(True, "`usage.cost_in_usd_ticks`", "docs.x.ai/developers/cost-tracking"),
        session_header=Fact(
            "x-grok-conv-id",
            "requests with the same value go to the same server",
            "docs.x.ai/developers/advanced-api-usage/prompt-caching/maximizing-cache-hits",
        ),
        caches_prefixes=Fact(
            True, "prompts are cached by server", "docs.x.ai/developers/advanced-api-usage/prompt-caching"
        ),
        thinking_switch=Fact(
            "none",
            'most models refuse an effort, although they reason: "does not support parameter reasoningEffort"',
            "NousResearch/hermes-agent PR 23435; BerriAI/litellm PR 16265",
        ),
        thinking_budget=Fact(
            "none", "no budget is documented", "docs.x.ai/developers/model-capabilities/text/reasoning"
        ),
        replay_reasoning=Fact("none", "reasoning of the history is not read", UNVERIFIED),
        media=Fact(("image",), "images alone are documented", "docs.x.ai, Image understanding"),
        image_formats=Fact(("png", "jpeg"), "jpg, jpeg or png", "docs.x.ai, Image understanding"),
        lacks=Fact(_SAMPLERS, "the request has no such fields", "litellm 1.110.2, llms/xai/chat/transformation.py"),
    ),
    "gemini": _make_facts(
        replay_extra_content=Fact(
            True,
            "calls carry `extra_content.google.thought_signature`, which the next request must have again",
            "ai.google.dev/gemini-api/docs/thought-signatures; openai/codex issue 7519",
        ),
        missing_signature=Fact(
            "skip_thought_signature_validator",
            "Gemini 3 refuses a turn whose first call has no signature, and skips the check of this one",
            "ai.google.dev/gemini-api/docs/thought-signatures, FAQ",
        ),
        restore_reasoning=Fact(
            True, "clients drop the signature", "ai.google.dev/gemini-api/docs/thought-signatures, FAQ"
        ),
        thinking_switch=Fact("reasoning_effort", "an effort, of which `none` switches thinking off", _GEMINI_OPENAI),
        efforts=Fact(("none", "minimal", "low", "medium", "high"), "the efforts that it names", _GEMINI_OPENAI),
        thinking_budget=Fact(
            "google_thinking_config", "`extra_body.google.thinking_config.thinking_budget`", _GEMINI_OPENAI
        ),
        effort_excludes=Fact(("budget",), "either an effort or a budget", _GEMINI_OPENAI),
        replay_reasoning=Fact("none", "reasoning is sent back as signatures alone", UNVERIFIED),
        media=Fact(("image", "audio"), "the parts that the page shows", _GEMINI_OPENAI),
        inline_media=Fact(_ALL, "the page sends base64; URLs of web pages are not fetched", _GEMINI_OPENAI),
        audio=Fact("base64", "`input_audio` with its format", _GEMINI_OPENAI),
        image_formats=Fact(
            ("png", "jpeg", "webp", "heic", "heif"),
            "the formats that it names; Gemini 2 and later refuse GIF",
            "ai.google.dev/gemini-api/docs/image-understanding",
        ),
        lacks=Fact(
            (*_SAMPLERS, "seed", "frequency_penalty"),
            "'Unknown name \"seed\": Cannot find field'; so are other unknown fields refused",
            "Vali-98/ChatterUI issue 227; MinLL/SkyrimNet-GamePlugin issue 77; mcpchecker/mcpchecker PR 188",
        ),
        max_function_name=Fact(
            64,
            '"Invalid function name. … with a maximum length of 64"',
            "google-gemini/gemini-cli issue 2966",
        ),
        parallel_tool_calls=Fact(
            False, "'Unknown name \"parallel_tool_calls\": Cannot find field'", "jackmpcollins/magentic PR 382"
        ),
        formats_beside_tools=Fact(
            False,
            "\"Function calling with a response mime type: 'application/json' is unsupported\" (Gemini 2.5 and before)",
            "googleapis/python-genai issue 867; openai/openai-agents-python issue 656",
        ),
    ),
    "openai": _make_facts(
        web_search_options=Fact(
            True, "the models with search in their names do", "openai 3.57.0, types/chat/completion_create_params.py"
        ),
        caller_fields=Fact(
            ("prompt_cache_key", "safety_identifier", "user"),
            "parameters of the request",
            "openai 3.57.0, types/chat/completion_create_params.py, types/responses/response_create_params.py",
        ),
        caches_prefixes=Fact(
            True, "prompts from 1024 tokens are cached", "platform.openai.com/docs/guides/prompt-caching"
        ),
        inline_think=Fact(
            "off", "reasoning is never a part of the content", "platform.openai.com/docs/guides/reasoning"
        ),
        thinking_switch=Fact("none", "an effort is all that there is, and goes as the caller gives it", _OPENAI_API),
        thinking_budget=Fact("none", _NO_BUDGET, _OPENAI_API),
        replay_reasoning=Fact(
            "none",
            "messages have no field for reasoning",
            "openai 3.57.0, types/chat/chat_completion_assistant_message_param.py",
        ),
        media=Fact(
            ("image", "audio", "file"),
            "the content parts",
            "openai 3.57.0, types/chat/chat_completion_content_part_param.py",
        ),
        audio=Fact(
            "base64",
            "`input_audio` with the format wav or mp3",
            "openai 3.57.0, types/chat/chat_completion_content_part_input_audio_param.py",
        ),
        max_tokens_field=Fact(
            "max_completion_tokens", "reasoning models refuse the deprecated `max_tokens`", _OPENAI_API
        ),
        max_stop_words=Fact(4, "`stop` has at most four texts", _OPENAI_API),
        max_function_name=Fact(
            64,
            "\"Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64\"; dots and"
            " others do not match the pattern",
            "BerriAI/litellm issue 17904; openai/codex issue 8174",
        ),
        parameter_alternatives=Fact(
            False,
            "\"schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level\"",
            "langchain-ai/langchainjs issue 9804; nspady/google-calendar-mcp issue 39",
        ),
        max_call_id=Fact(
            40,
            "\"Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40\"",
            "anomalyco/opencode issue 12653; vercel/ai issue 5171",
        ),
        names=Fact(
            "all", "every role may have a `name`", "openai 3.57.0, types/chat/chat_completion_user_message_param.py"
        ),
        lacks=Fact(
            _SAMPLERS,
            '"Unrecognized request argument supplied: top_k"',
            "xlinx/sd-webui-decadetw-auto-prompt-llm issue 29",
        ),
    ),
    "anthropic": {},
    "anthropic_compatible": {},
}
FACTS["vertex"] = FACTS["gemini"]
"""By kind of server and field of its profile. `openai_compatible` is an unknown server: parameters keep their names.
`anthropic` and `anthropic_compatible` differ only by what `apis` says of the API `messages`, and
`gemini` and `vertex` by what it says of the API `gemini`."""

KINDS: dict[str, Profile] = {
    kind: Profile(**{field: fact.value for field, fact in facts.items()}) for kind, facts in FACTS.items()
}
"""The default profile of each kind of server."""
