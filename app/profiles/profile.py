"""What a model and its server can and cannot do, field by field."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.chat.messages import MediaKind, NamedMedia

TextTools: TypeAlias = Literal[
    "hermes",
    "qwen3_coder",
    "deepseek_v3",
    "deepseek_v31",
    "dsml",
    "mistral_json",
    "mistral_args",
    "llama_json",
    "pythonic",
    "glm45",
    "kimi_k2",
    "minimax_m2",
    "harmony",
    "lmstudio",
]


def _parse_word(word: str | None) -> str | None:
    """TOML has no null: `"none"` stands for it."""
    return None if word == "none" else word


class Profile(BaseModel):
    """One row. A field that says how a parameter is named is None where the server has no such parameter."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inline_think: Literal["leading", "forced_open", "auto_close", "interleaved", "off"] = "leading"
    """Thinking inside the content: `leading` a block at its start, `forced_open` the opening tag was in the prompt,
    `auto_close` it may have been (text is held until the closing tag or the end), `interleaved` blocks anywhere."""
    think_tags: tuple[str, str] = ("<think>", "</think>")
    """What opens and closes a thought inside the content, in replies and in history."""
    think_interrupt: str | None = Field(default=None, min_length=1)
    """A tool marker (`<tool_call>`) that ends an open thought when it begins a line: the model forgets to close it."""

    native_tools: bool = True
    """The server takes `tools`; without it functions are explained in the prompt and calls read from the text."""
    fncall_prompt_type: Literal["nous", "qwen"] = "nous"
    """The prompt that explains functions where they are not sent."""
    special_code_mode: bool = False
    """`nous`: the code of a code interpreter stands in a `<code>` block of its own, behind the JSON."""
    text_tools: TextTools | None = None
    """The family of models whose calls this server leaks as text, so that they are read from the content."""

    replay_reasoning: Literal["reasoning_content", "reasoning", "think_tags", "none"] = "reasoning_content"
    """The field in which old reasoning goes back to the model, or inside its content between `think_tags`."""
    replay_turns: Literal["all", "tool_turns"] = "all"
    """Whether reasoning goes back with every assistant turn or only with those that called tools."""
    replay_blank_reasoning: bool = False
    """Tool turns need the reasoning field even when no reasoning is known (DeepSeek V3.2+, Kimi)."""
    replay_details: bool = False
    """`extra.reasoning_details` of a turn go back with it, unread and in order (OpenRouter)."""
    replay_extra_content: bool = True
    """Texts and calls of the history keep their `extra_content`: signatures of thoughts that Gemini must see again."""

    thinking_switch: Literal[
        "enable_thinking", "chat_template_kwargs", "thinking_type", "reasoning_effort", "reasoning_object", "none"
    ] = "enable_thinking"
    """How `enable_thinking` is said to this server."""
    thinking_budget: Literal[
        "thinking_budget",
        "thinking_token_budget",
        "thinking_budget_tokens",
        "custom_params",
        "reasoning_max_tokens",
        "google_thinking_config",
        "chat_template_kwargs",
        "none",
    ] = "thinking_budget"
    """How `thinking_budget` is said to this server: in a field of that name, in vLLM's `thinking_token_budget`, in
    llama.cpp's `thinking_budget_tokens` and `reasoning_budget_tokens` (its versions read one or the other), in SGLang's
    `custom_params`, in OpenRouter's `reasoning.max_tokens`, in Gemini's `extra_body.google.thinking_config`, or as a
    variable of the chat template."""
    max_thinking_budget: int | None = Field(default=None, ge=1)
    """A larger budget is lowered to it, and the caller is warned."""

    default_system: dict[Literal["en", "zh"], str] = Field(default_factory=dict)
    """The system message of a conversation that has none, by its language; where one language is missing, the other."""
    system: Literal["anywhere", "leading", "merged", "none"] = "anywhere"
    """Where system messages may stand: `leading` before all others, `merged` one before all others, `none` the model
    has no such role, and the first user message begins with their text."""
    alternate: bool = False
    """User and assistant must alternate: neighbours of one role are merged, empty assistant messages left out."""
    assistant_after_tool: bool = False
    """No user message may follow a tool result directly: a short assistant message is put between them."""
    continuation: Literal["fold", "prefix", "partial", "continue_final_message", "send", "refuse"] = "fold"
    """How a last assistant message is gone on with: `prefix` and `partial` are fields of that message (DeepSeek's on
    its /beta URL only), `continue_final_message` is one of the body, `send` means that the server does it anyway;
    `fold` is for models that cannot: Qwen-Agent's format has the text put behind the user's message, the other formats
    send both messages, as their clients do; `refuse` answers with an error."""
    assistant_last: bool = True
    """A conversation may end with an assistant's message that is not gone on with. Where it may not, the text is put
    behind the user's message in every format, with a warning."""

    max_input_tokens: int | None = Field(default=None, ge=1)
    """Longer conversations are cut before they are sent; the caller's own `max_input_tokens` wins."""
    tokenizer: str | None = None
    """The file of this model's tokenizer: a `tokenizer.json`, or ranks in tiktoken's form. None: the default one."""
    media_tokens: dict[MediaKind, int] = {"image": 1024, "audio": 1024, "video": 4096, "file": 4096}
    """What one of them is counted as, a frame of a video as an image; what is not named here, as nothing."""

    media: tuple[MediaKind, ...] = ("image", "audio", "video", "file")
    """What the model takes; anything else is described to it in words, files also by their text."""
    inline_media: tuple[MediaKind, ...] = ("file",)
    """What must come as a data URI, since the server fetches no URL: remote ones are fetched for it."""
    passed_urls: Literal["public", "resolved", "any"] = "public"
    """Which URLs go on to a server that fetches them itself: `public` no private address and no name of a private
    network, `resolved` none whose name leads to one now, `any` all. What `fetch.allow` names goes on too. For bytes
    that the gateway itself has fetched, see `inline_media`."""
    audio: Literal["data_url", "base64", "audio_url"] = "data_url"
    """Sound is an `input_audio` part that holds a URL or data URI (DashScope), or bare base64 and its format (OpenAI;
    remote sound is fetched for it), or an `audio_url` part."""
    max_image_pixels: int | None = Field(default=None, ge=1)
    """Images with more are scaled down. For this limit and the next two, remote images are fetched."""
    max_image_short_side: int | None = Field(default=None, ge=1)
    """Images whose shorter side has more pixels are scaled down."""
    max_media_bytes: int | None = Field(default=None, ge=1)
    """Images above it are encoded smaller; sound, film and files whose bytes are read are refused above it."""
    file_text: bool = True
    """A file that the model does not take is read and its text inserted; else only its name is told."""
    name_media: NamedMedia | None = None
    """Media of users named in words: `never`, `untaken` those that the model does not take, `with_tools` where there
    are tools all. None: as the request's format has it, `with_tools` for Qwen-Agent's, `never` for the others. What is
    neither taken nor named nor read as text is refused."""
    video_frames: Literal["video", "images"] = "video"
    """A list of frames: DashScope's `video` part, or one image part each."""

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The one name under which the most tokens are sent, whichever the caller used."""
    max_stop_words: int = Field(default=16, ge=1, le=256)
    """A request with more stop words, the model's own among them, is refused."""
    renamed: dict[str, str] = Field(default_factory=dict)
    """Parameters that the server calls otherwise (`repetition_penalty` → `repeat_penalty`)."""
    lacks: tuple[str, ...] = ()
    """Parameters that the server has not: they are not sent, and the caller is warned."""
    extra_fields: tuple[str, ...] | None = None
    """Fields that the gateway does not know and this server takes: any other is refused by its name. None: whatever is
    said goes on to the server."""
    tool_choice_required: Annotated[str | None, AfterValidator(_parse_word)] = "required"
    """The word for "call some tool"; `"none"`: the server has none."""
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
    """Text alone is sent as a list of parts too, one for each item; most servers want a string."""
    call_ids: Literal["keep", "alphanumeric9"] = "keep"
    """Mistral's templates refuse ids that are not nine letters and digits."""
    valid_arguments: bool = True
    """The server refuses history whose arguments are no JSON object: broken ones are wrapped as `{"_raw": "…"}`."""

    cache_control: bool = False
    """The server knows `cache_control` on content parts and tools (OpenRouter, DashScope, proxies to Anthropic); for
    others it is left out with a warning."""

    stream: Literal["always", "as_asked", "never"] = "always"
    """Whether the server is asked to stream: `always`, `as_asked` where the caller wants a stream, or `never`. Some
    servers say less in a stream (no usage), or cannot stream. A whole reply is told to a caller who wants a stream in
    one piece."""
    stream_usage: bool = True
    """Usage in a stream is asked for by `stream_options.include_usage`."""


READS_REPLIES = frozenset(
    {
        "inline_think",
        "think_tags",
        "think_interrupt",
        "native_tools",
        "fncall_prompt_type",
        "special_code_mode",
        "text_tools",
    }
)
"""The fields by which a reply is read."""

SHAPES_REQUESTS = frozenset(
    {
        "replay_reasoning",
        "replay_turns",
        "replay_blank_reasoning",
        "replay_details",
        "replay_extra_content",
        "thinking_switch",
        "thinking_budget",
        "max_thinking_budget",
        "default_system",
        "system",
        "alternate",
        "assistant_after_tool",
        "continuation",
        "assistant_last",
        "max_input_tokens",
        "tokenizer",
        "media_tokens",
        "media",
        "inline_media",
        "passed_urls",
        "audio",
        "max_image_pixels",
        "max_image_short_side",
        "max_media_bytes",
        "file_text",
        "name_media",
        "video_frames",
        "max_tokens_field",
        "max_stop_words",
        "renamed",
        "lacks",
        "extra_fields",
        "tool_choice_required",
        "named_tool_choice",
        "parallel_tool_calls",
        "names",
        "tool_names",
        "empty_content",
        "text_parts",
        "call_ids",
        "valid_arguments",
        "cache_control",
        "stream",
        "stream_usage",
    }
)
"""The others: all that they do is seen in the request that is sent. A new field belongs in one of the two."""


def select_reply_fields(profile: Profile) -> dict[str, Any]:
    """How the profile has replies read, as JSON: two that agree here read equal replies alike."""
    return {name: getattr(profile, name) for name in READS_REPLIES}
