"""The fields that describe what a model and its server support."""

from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from app.chat.messages import MediaKind, NamedMedia

TextTools: TypeAlias = Literal[
    "auto",
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
    "kimi_k3",
    "minimax_m2",
    "minimax_m3",
    "step3",
    "seed_oss",
    "gemma4",
    "harmony",
    "lmstudio",
    "tool_calls",
    "longcat",
    "nemotron",
    "internlm",
    "granite",
    "cohere",
    "gigachat",
    "apertus",
    "functools",
    "hunyuan_v4",
    "solar",
    "dots",
    "atem",
    "minicpm5",
    "solar_open2",
    "gigachat35",
    "k2_horizon",
    "iquest_q1",
    "plamo3",
    "inkling",
]
ImageFormat: TypeAlias = Literal["png", "jpeg", "gif", "webp", "bmp", "tiff", "avif", "heic", "heif"]

FunctionNames: TypeAlias = Literal["plain", "letter_first", "dotted"]
EmptyReplies: TypeAlias = Literal["retry", "retry_reasoning", "accept"]


def _parse_none(value: Any) -> Any:
    """Replace `"none"` with None, because TOML has no null."""
    return None if value == "none" else value


def _parse_call_ids(value: Any) -> Any:
    """Read `false` as `none`, and `true` as `keep`."""
    return {False: "none", True: "keep"}[value] if isinstance(value, bool) else value


def _check_formats(value: tuple[ImageFormat, ...]) -> tuple[ImageFormat, ...]:
    """Check that an image can be converted to one of the formats."""
    if "png" not in value and "jpeg" not in value:
        raise ValueError("must have png or jpeg, to which other images are converted")
    return value


CallerField: TypeAlias = Literal["prompt_cache_key", "safety_identifier", "user"]


class Profile(BaseModel):
    """What a model and its server support. All fields have defaults; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inline_think: Literal["leading", "forced_open", "auto_close", "interleaved", "off"] = "leading"
    """Where the content can contain reasoning between tags: `leading` in one block at its start, `forced_open` from its
    start because the opening tag was in the prompt, `auto_close` the opening tag may have been in the prompt (text is
    buffered until the closing tag or the end of the reply), `interleaved` in blocks anywhere, `off` nowhere."""
    think_tags: tuple[str, str] = ("<think>", "</think>")
    """The tags around reasoning inside the content, in replies and in the history."""
    think_interrupt: str | None = Field(default=None, min_length=1)
    """A marker (`<tool_call>`) that ends the reasoning if it starts a line, for models that forget the closing tag."""

    answer_tags: Annotated[tuple[str, str] | None, BeforeValidator(_parse_none)] = ("<response>", "</response>")
    """The tags around the answer directly behind reasoning in tags, which are removed (Granite 3.3); `"none"` if such
    tags are content."""

    native_tools: bool = True
    """The server accepts `tools`. If false, the prompt explains the functions and calls are parsed from the text."""
    fncall_prompt_type: Literal["nous", "qwen"] = "nous"
    """The prompt that explains the functions if `native_tools` is false."""
    special_code_mode: bool = False
    """With the `nous` prompt, the code for a code interpreter is in a separate `<code>` block after the JSON."""
    text_tools: Annotated[TextTools | None, BeforeValidator(_parse_none)] = "auto"
    """The model family whose tool calls this server leaves in the content, so that they are parsed from it. `auto`: a
    text that is a call in any family is one if the request offers its function and the arguments are an object, and if
    it does not stand in code, in a quotation or in a sentence; it is held until it is complete. `"none"`: no calls are
    read from texts."""

    empty_replies: EmptyReplies = "retry"
    """What happens to a reply that ends well, but has no text, call, refusal or media. `retry`: while nothing was sent
    to the caller, the request is sent again as after an error, and a reply that stays empty has a warning.
    `retry_reasoning`: so is one that has only reasoning; a caller who streams has that already, and gets the warning.
    `accept`: neither, for models that may answer with nothing. An empty reply is never cached."""

    replay_reasoning: Literal["reasoning_content", "reasoning", "think_tags", "none", "item", "item_text"] = (
        "reasoning_content"
    )
    """The field in which the reasoning of the history is sent to the model; `think_tags` sends it inside the content
    between the tags. Over the Responses API reasoning is an item: `item` sends only what the server has encrypted,
    `item_text` its text too."""
    encrypted_reasoning: bool = False
    """Over the Responses API the model encrypts its reasoning if it is asked to, so that the client can send it back.
    Models without reasoning refuse the request for it."""
    reasoning_summary: Annotated[Literal["auto", "concise", "detailed"] | None, BeforeValidator(_parse_none)] = None
    """The summary of its reasoning that the model is asked for over the Responses API. OpenAI refuses it to models
    without reasoning and to organisations that are not verified. A request's own `reasoning.summary` goes first."""
    replay_turns: Literal["all", "tool_turns"] = "all"
    """Whether reasoning is sent with every assistant turn or only with those that called tools."""
    replay_blank_reasoning: bool | Literal["all"] = False
    """Which assistant turns need the reasoning field even if they have no reasoning: `true` those with tool calls
    (Kimi), `"all"` every one (DeepSeek V4)."""
    blank_reasoning: str = ""
    """The reasoning of a turn that has none, if `replay_blank_reasoning`. Kimi and DeepSeek take an empty text as
    missing."""
    thought_only_turns: bool = True
    """An assistant turn may have reasoning and neither text nor calls. If false, such a turn is left out, with a
    warning."""
    restore_reasoning: bool = False
    """The server refuses tool turns of the history without their reasoning or its signature, or answers worse. If a
    client dropped them, the gateway restores them from the earlier reply: the reasoning if `replay_reasoning` sends it,
    the signature if `replay_extra_content` does."""
    replay_details: bool = False
    """`extra.reasoning_details` of a turn are sent with it, unchanged and in order (OpenRouter): a signature is refused
    without the text that it signs."""
    unsigned_thinking: Literal["send", "drop"] = "send"
    """With the API `messages`: whether reasoning that no server has signed is sent, with an empty signature."""
    blank_texts: bool = True
    """With the API `messages`: the server takes texts that are empty or only white space. If false, they are left out
    of the bodies of clients of the same API, too; of other clients' conversations they always are."""
    thinking_binding: Literal["drop_block"] | None = None
    """With the API `messages`: the server drops thinking that is bound to another prefix or account, instead of
    refusing the request (Claude 5.1 and later)."""
    replay_extra_content: bool = True
    """Texts and calls of the history keep their `extra_content`, in which Gemini needs each `thought_signature`
    again."""
    missing_signature: Annotated[str | None, AfterValidator(_parse_none)] = None
    """The `thought_signature` that is sent with the first call of a turn if that has none: Gemini 3 refuses a turn
    whose first call has no signature, and skips the check of this value. `"none"`: nothing is sent."""

    thinking_switch: Literal[
        "enable_thinking",
        "chat_template_kwargs",
        "thinking_type",
        "reasoning_effort",
        "reasoning_object",
        "adaptive",
        "budget",
        "level",
        "gemini_budget",
        "none",
    ] = "enable_thinking"
    """How `enable_thinking` is sent to this server. `adaptive` sends `thinking` of that type. With the API `messages`:
    `adaptive` lets the model decide how much it thinks, with the effort beside it; `chat_template_kwargs` sends
    variables of the chat template, and a budget only if the request has one; any other value but `none` sends a budget.
    With the API `gemini`: `level` sends a `thinkingLevel` (Gemini 3 and later), `gemini_budget` a `thinkingBudget`
    (Gemini 2.5)."""
    thinks_by_default: bool = False
    """The model thinks if a request does not switch thinking off."""
    efforts: tuple[str, ...] | dict[str, str] | None = None
    """The values of `reasoning_effort` that the model takes. Another value is sent as the nearest of them, with a
    warning; `none` switches thinking off and is never the nearest. A table also says what is sent for each value
    (`{ high = "default" }`). An empty list: the model takes no effort. None: it is not known; the caller's
    `reasoning_effort` is sent as it is, and an effort that a client sends with every request only if `thinking_switch`
    is `reasoning_effort`."""
    effort_excludes: tuple[Literal["switch", "budget"], ...] = ()
    """What the server refuses beside an effort. `switch`: an effort is sent without a switch that says the same, and
    none if thinking is off. `budget`: the caller's own effort replaces the budget, and the budget any other effort."""
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
    """How `thinking_budget` is sent to this server: in a field of that name, in vLLM's `thinking_token_budget`, in
    llama.cpp's `thinking_budget_tokens` and `reasoning_budget_tokens` (a version reads one or the other), in SGLang's
    `custom_params`, in OpenRouter's `reasoning.max_tokens`, in Gemini's `extra_body.google.thinking_config`, or as a
    variable of the chat template."""
    max_thinking_budget: int | None = Field(default=None, ge=1)
    """The largest budget of this server. A larger one is lowered to it, with a warning."""

    default_system: dict[Literal["en", "zh"], str] = Field(default_factory=dict)
    """The system message of a conversation that has none, by language. If the conversation's language is missing, the
    other language is used."""
    system: Literal["anywhere", "leading", "merged", "then_user", "none"] = "anywhere"
    """Which system messages the server accepts: `anywhere`, `leading` only before all other messages, `merged` only one
    before all other messages, `then_user` only before all others, so that later ones become text of the user at their
    place (API `messages`), `none` no system messages, so that the first user message starts with their text."""
    needs_user: bool = False
    """The server refuses a conversation without a message of the user: of system messages alone the last one is sent as
    one of the user, and another conversation begins with a short one."""
    alternate: bool = False
    """User and assistant messages must alternate: neighbours of one role are merged, empty assistant ones dropped."""
    assistant_after_tool: bool = False
    """A user message must not directly follow a tool result: a short assistant message is inserted between them."""
    continuation: Literal["fold", "prefix", "partial", "continue_final_message", "send", "refuse"] = "fold"
    """How the model is asked to continue a last assistant message: `prefix` and `partial` set that field of the message
    (DeepSeek only on its /beta URL), `continue_final_message` sets that field of the body, `send` sets nothing because
    the server always continues it. `fold` is for models that cannot continue: for Qwen-Agent's format the text is
    appended to the user's message, for the other formats both messages are sent, as their clients do. `refuse` answers
    with an error."""
    assistant_last: bool = True
    """A conversation may end with an assistant message that the model does not continue. If false, its text is appended
    to the user's message in every format, with a warning. A client of the server's own API has its conversation sent
    as it ends."""

    max_input_tokens: int | None = Field(default=None, ge=1)
    """Longer conversations are truncated before they are sent; the caller's `max_input_tokens` takes precedence."""
    tokenizer: str | None = None
    """The file of this model's tokenizer: a `tokenizer.json`, or a ranks file of tiktoken. None uses the default."""
    media_tokens: dict[MediaKind, int] = {"image": 1024, "audio": 1024, "video": 4096, "file": 4096}
    """How many tokens one media part counts; a frame of a video counts as an image. A missing kind counts 0."""

    media: tuple[MediaKind, ...] = ("image", "audio", "video", "file")
    """The media that the model accepts. Of files that it does not accept it gets the text (`file_text`). Other media
    that it does not accept are named in words or refused (`name_media`); in earlier turns and in tool results they
    become words, with a warning."""
    inline_media: tuple[MediaKind, ...] = ("file",)
    """The media that the server accepts only as data URIs; the gateway fetches their URLs."""
    passed_urls: Literal["public", "resolved", "any"] = "public"
    """Which URLs are sent to a server that fetches them itself: `public` refuses private addresses, names of private
    networks and names without a dot, `resolved` also refuses names that resolve to a private address now, `any` refuses
    none. URLs that `fetch.allow` names are always sent. For media that the gateway must fetch itself, see
    `inline_media`."""
    audio: Literal["data_url", "base64", "audio_url"] = "data_url"
    """How audio is sent: `data_url` an `input_audio` part with a URL or data URI (DashScope), `base64` an `input_audio`
    part with base64 and its format (OpenAI; the gateway fetches URLs), `audio_url` an `audio_url` part."""
    image_formats: Annotated[tuple[ImageFormat, ...], AfterValidator(_check_formats)] = ("png", "jpeg", "gif", "webp")
    """The formats of images that the server reads. Images in others are converted to PNG or JPEG; the gateway looks at
    the bytes of data URIs and of the images that it fetches. The default are the formats of OpenAI's API."""
    max_image_pixels: int | None = Field(default=None, ge=1)
    """Images with more pixels are scaled down. For this limit and the next two, the gateway fetches remote images."""
    max_image_short_side: int | None = Field(default=None, ge=1)
    """Images whose shorter side has more pixels are scaled down."""
    max_media_bytes: int | None = Field(default=None, ge=1)
    """Larger images are encoded smaller; larger audio, video and files are refused if the gateway reads their bytes."""
    tool_media: bool = False
    """Over the APIs `responses`, `messages` and `gemini` the result of a tool may hold images and files. If false, they
    follow it in a message of the user; those of a client of Gemini's own API stay where they are."""
    file_text: bool = True
    """The text of a file that the model does not accept is inserted; if false, only the file's name is given."""
    name_media: NamedMedia | None = None
    """Which media of user messages are also named in words: `never` none, `untaken` those that the model does not
    accept, `with_tools` all of them if the request has tools. None uses the default of the request's format:
    `with_tools` for Qwen-Agent's, `never` for the others. Media that are not accepted, named or read as text are
    refused."""
    video_frames: Literal["video", "images"] = "video"
    """How a list of video frames is sent: as DashScope's `video` part, or as one image part for each frame."""

    max_output_tokens: int | None = Field(default=None, ge=1)
    """The largest limit of output tokens that is sent. A larger one of the caller is lowered to it, with a warning, so
    that a client that always asks for 32,000 tokens can use a model of 32,768."""
    min_output_tokens: int | None = Field(default=None, ge=1)
    """The smallest limit of output tokens that the server takes. A smaller one is raised to it, with a warning."""
    default_max_tokens: int = Field(default=8192, ge=1)
    """The limit of output tokens where a request has none and the API needs one (`messages`)."""
    max_temperature: float | None = Field(default=None, gt=0)
    """A higher temperature is lowered to it, with a warning."""
    sampling_excludes_top_p: bool = False
    """The server refuses `top_p` beside a temperature, so that it is left out, with a warning. A client of the server's
    own API has it as it asked for it."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The name under which the limit of output tokens is sent, whichever name the caller used."""
    max_stop_words: int = Field(default=16, ge=1, le=256)
    """A request with more stop words, the model's default ones included, is refused."""
    renamed: dict[str, str] = Field(default_factory=dict)
    """Parameters that have another name on this server (`repetition_penalty` → `repeat_penalty`)."""
    lacks: tuple[str, ...] = ()
    """Parameters that the server does not have: they are not sent, with a warning."""
    web_search_options: bool = False
    """The server searches the web as these options of a request say. If false, they are not sent, with a warning."""
    extra_fields: tuple[str, ...] | None = None
    """The fields unknown to the gateway that this server accepts; any other one is refused, also from a client
    of the server's own API. None sends all unknown fields to the server."""
    allowed_fields: tuple[str, ...] = ()
    """Fields that callers with a key may send although they are refused otherwise: those that name something in the
    account at the server (`conversation`, `vector_store_ids`, `file_id`), which all callers share; and, for callers who
    may not use all models, those that no API is known to have, or that choose a model or an address."""
    tool_choice_required: Annotated[str | None, AfterValidator(_parse_none)] = "required"
    """The server's value of `tool_choice` for "call at least one tool"; `"none"` if it has no such value."""
    named_tool_choice: bool = True
    """The server accepts the name of a function as `tool_choice`. If false, only that function is sent, with the value
    of `tool_choice_required`."""
    tool_choice_none: bool = True
    """The server obeys `tool_choice = "none"`. If false, the tools are left out of such a request."""
    forced_choice_while_thinking: Literal["send", "auto", "thinking_off"] = "send"
    """What is done with a `tool_choice` that demands a call while the model thinks: `send` it, for servers that accept
    both; `auto` leaves the choice to the model, of which only a named function is offered; `thinking_off` switches
    thinking off for the request. The last two with a warning."""
    parallel_tool_calls: bool = True
    """The server knows the parameter `parallel_tool_calls`."""

    check_output: Literal["off", "warn", "enforce"] = "warn"
    """Whether the text of a reply is checked against the JSON schema of the request. `warn`: an invalid one gets a
    warning. `enforce`: the reply is held back until it is valid, also the call of a function that the request demands;
    the model is asked once more, with the errors of its reply, then the fallbacks are asked, and then the request
    fails with `output_invalid`."""
    response_formats: tuple[Literal["json_object", "json_schema"], ...] = ("json_object", "json_schema")
    """The types of `response_format` that the server enforces. For another one the nearest is sent; if that says less,
    the prompt asks for the JSON and has the schema, and a warning says so."""
    formats_beside_tools: bool = True
    """The server takes a `response_format` together with tools. If false, such a request is treated as if the server
    enforced none."""
    formats_while_thinking: Literal["send", "explain", "thinking_off"] = "send"
    """What is done with a `response_format` while the model thinks: `send` it, for servers that enforce it on the text
    behind the reasoning; `explain` treats the request as if the server enforced none; `thinking_off` switches thinking
    off for the request, or explains if the server has no switch. The last two with a warning."""

    names: Literal["none", "user", "all"] = "none"
    """Which messages are sent with their `name`: `none`, those of `user`, or `all`."""
    tool_names: bool = False
    """Tool results are sent with the function's name."""
    empty_content: Literal["null", "empty", "omit"] = "null"
    """The content of an assistant message that has only tool calls."""
    text_parts: bool = False
    """Text without media is sent as a list of parts too, one for each item; most servers want a string."""
    tool_schema: Literal["json", "openapi"] = "json"
    """With the API `gemini`: `json` sends the schemas of functions and of replies as they are, `openapi` in the older
    form, which has a part of the words of JSON Schema."""
    format_schema: Literal["json", "anthropic"] = "json"
    """With the API `messages`: `json` sends the schema of a `response_format` unchanged. `anthropic` sends only the
    keywords that Anthropic accepts; the others are added to `description`, with a warning."""
    call_ids: Annotated[Literal["keep", "alphanumeric9", "none"], BeforeValidator(_parse_call_ids)] = "keep"
    """`alphanumeric9` replaces ids that are not nine letters and digits, which Mistral's templates refuse. `none`, or
    `false`, sends none over the API `gemini`: calls and results then belong together by their order."""
    parameter_alternatives: bool = True
    """The server takes `anyOf`, `oneOf` and `allOf` at the top of a function's parameters. If false, the function is
    offered with the properties of all alternatives, with a warning."""
    typed_parameters: bool = False
    """The server wants a `type` in each schema inside a function's parameters; beside `anyOf` and `oneOf` it stands in
    each alternative, and nowhere else."""
    client_tools: bool = True
    """Over the Responses API the server knows tools of clients that are no functions: custom tools, namespaces and
    searches for tools. If false, a client's own request that has any is translated, and they become functions, and a
    message between agents of a client becomes one of the user."""
    max_function_name: int | None = Field(default=None, ge=16)
    """The longest name of a function that the server takes, in the characters of `function_names`. Another name is sent
    shortened and with `_` in the place of other characters, and calls come back with the name that the caller gave.
    None: every name is sent as it is."""
    function_names: FunctionNames = "plain"
    """The characters that names may have if `max_function_name` is set: `plain` letters, digits, `_` and `-`;
    `letter_first` the same, of which the first must be a letter (Kimi); `dotted` also `.` and `:`, and the first one
    must be a letter or `_` (Gemini)."""
    max_call_id: int | None = Field(default=None, ge=29)
    """The longest id of a call that the server takes, in characters. A longer one, of another server, is replaced by a
    digest of it."""
    valid_arguments: bool = True
    """The server refuses a history with arguments that are not a JSON object: they are wrapped as `{"_raw": "…"}`."""

    caches_prefixes: bool = False
    """The server keeps the beginnings of conversations that it has read, so the next turn is cheaper there. With
    several upstreams a session then stays at one, unless the model has another `strategy`."""
    caller_fields: tuple[CallerField, ...] = ()
    """The fields with which a client names itself and the conversation that the server knows. Those of a Responses
    request are sent to no other server. Clients of chat completions choose what their server gets."""
    session_header: str | None = None
    """The header that tells the server a hash of the session's id, so that it finds the session in its cache."""
    cache_control: bool = False
    """The server knows `cache_control` on content parts and tools (OpenRouter, DashScope, proxies to Anthropic). If
    false, it is left out, with a warning."""

    takes: Literal["all", "known"] = "known"
    """With the APIs `responses`, `messages` and `gemini`: how much of a client's own body of the same API the server
    knows. `known`: what every server of the API knows, and what the gateway itself does not know; items, tools and
    fields that only the API's vendor knows are left out, or translated, with a warning. `all`: everything."""
    passed_bodies: bool = True
    """With the APIs `responses`, `messages` and `gemini`: what nothing changed of the body of a client of the same API
    is sent as it came, and the client gets the server's own events, as long as the other fields of the profile change
    nothing of the reply and no event lacks a field. If false, the request and the reply are translated, as between
    other APIs: for a server that ignores parts of the API."""
    stream: Literal["always", "as_asked", "never"] = "always"
    """Whether the gateway asks the server for a stream: `always`, `as_asked` only if the caller wants one, or `never`.
    Some servers cannot stream, or leave out the usage when they do. A reply that was not streamed reaches a caller who
    wants a stream in one piece."""
    obfuscation_option: bool = False
    """The server adds padding to each event unless `stream_options.include_obfuscation` is false, which is then
    sent."""
    stream_usage: bool = True
    """The server knows `stream_options.include_usage`, by which the gateway asks for usage in a stream."""
    reports_length: bool = True
    """The server says that a reply ended at the limit of output tokens. If false, a reply that has used as many tokens
    as the limit allows is taken as cut off."""
    reports_cost: bool = False
    """The server reports what each reply cost, so that limits of spending hold without a price of the model."""

    @property
    def text_family(self) -> str | None:
        """The family that is configured."""
        return None if self.text_tools == "auto" else self.text_tools

    @cached_property
    def neutral(self) -> "Profile":
        """The profile of a server with the same preferences that takes everything as a client of its own API sends it:
        beside it can be seen what this profile changes."""
        preferred = {name: getattr(self, name) for name in PREFERENCES}
        if preferred["thinking_switch"] not in ("adaptive", "level", "gemini_budget"):
            preferred["thinking_switch"] = "budget"
        return Profile(**preferred | _TAKES_EVERYTHING)

    @cached_property
    def encoded_reply_fields(self) -> msgspec.Raw:
        """`select_reply_fields` as JSON whose keys are sorted."""
        return msgspec.Raw(msgspec.json.encode(select_reply_fields(self), order="sorted"))


PREFERENCES = frozenset(
    {
        "thinking_switch",
        "thinking_binding",
        "effort_excludes",
        "forced_choice_while_thinking",
        "default_max_tokens",
        "sampling_excludes_top_p",
        "replay_extra_content",
        "valid_arguments",
    }
)
"""The fields that choose one of several forms for what is translated. What a client of the server's own API has written
itself does not change by them; the other fields say what a server refuses from every client."""
_TAKES_EVERYTHING: dict[str, Any] = {
    "takes": "all",
    "replay_reasoning": "item_text",
    "cache_control": True,
    "tool_media": True,
    "inline_media": (),
}

READS_REPLIES = frozenset(
    {
        "inline_think",
        "think_tags",
        "think_interrupt",
        "answer_tags",
        "native_tools",
        "fncall_prompt_type",
        "special_code_mode",
        "text_tools",
        "empty_replies",
        "check_output",
        "reports_length",
    }
)
"""The fields that decide how a reply is parsed, or whether it is cached."""

SHAPES_REQUESTS = frozenset(
    {
        "replay_reasoning",
        "encrypted_reasoning",
        "reasoning_summary",
        "replay_turns",
        "replay_blank_reasoning",
        "blank_reasoning",
        "thought_only_turns",
        "restore_reasoning",
        "replay_details",
        "unsigned_thinking",
        "blank_texts",
        "thinking_binding",
        "replay_extra_content",
        "missing_signature",
        "thinking_switch",
        "thinks_by_default",
        "efforts",
        "effort_excludes",
        "thinking_budget",
        "max_thinking_budget",
        "default_system",
        "system",
        "needs_user",
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
        "image_formats",
        "max_image_pixels",
        "max_image_short_side",
        "max_media_bytes",
        "tool_media",
        "file_text",
        "name_media",
        "video_frames",
        "max_output_tokens",
        "min_output_tokens",
        "default_max_tokens",
        "max_temperature",
        "sampling_excludes_top_p",
        "max_tokens_field",
        "max_stop_words",
        "renamed",
        "lacks",
        "web_search_options",
        "extra_fields",
        "allowed_fields",
        "tool_choice_required",
        "named_tool_choice",
        "tool_choice_none",
        "forced_choice_while_thinking",
        "parallel_tool_calls",
        "response_formats",
        "formats_beside_tools",
        "formats_while_thinking",
        "names",
        "tool_names",
        "empty_content",
        "text_parts",
        "tool_schema",
        "format_schema",
        "call_ids",
        "parameter_alternatives",
        "typed_parameters",
        "client_tools",
        "max_function_name",
        "function_names",
        "max_call_id",
        "valid_arguments",
        "caches_prefixes",
        "caller_fields",
        "session_header",
        "cache_control",
        "takes",
        "passed_bodies",
        "stream",
        "obfuscation_option",
        "stream_usage",
        "reports_cost",
    }
)
"""The other fields, whose whole effect is visible in the upstream request. A new field belongs in one of the two."""


def select_reply_fields(profile: Profile) -> dict[str, Any]:
    """Return the fields of `READS_REPLIES` as JSON. Profiles with equal values parse identical replies equally."""
    return {name: getattr(profile, name) for name in READS_REPLIES}
