"""The generation parameters of a request: Qwen-Agent's `generate_cfg`, with OpenAI's names for the same as well.

An unknown key is an error that names the key; `extra_body` accepts any key.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from app.chat.attachments import PassageSearch
from app.chat.known_names import recall_names
from app.other_apis import read_choice, read_response_format, read_server_choice

Number = Annotated[float, Field(allow_inf_nan=False)]
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""Servers read integers as 64 bits."""
MAX_SECONDS = 10 * 365 * 24 * 3600
"""Ten years. A longer time could overflow a timer, or the TTL of a store."""


def max_entries(number: int) -> BeforeValidator:
    """Return a validator that rejects a longer list or object before its entries are validated."""

    def check(value: Any) -> Any:
        if isinstance(value, list | dict) and len(value) > number:
            raise ValueError(f"has {len(value)} entries; at most {number} are allowed")
        return value

    return BeforeValidator(check)


class AllowedTools(NamedTuple):
    """A choice of the type `allowed_tools`."""

    mode: str
    """`auto` or `required`."""
    names: list[str]
    path: str
    """Where the names are in the choice: OpenAI's chat completions have them one level deeper than Responses."""


def parse_allowed_tools(choice: Any) -> AllowedTools | None:
    """Return the tools that a choice allows, or None if it is of another type. Raises ValueError for a wrong shape."""
    if not isinstance(choice, dict) or choice.get("type") != "allowed_tools":
        return None
    inner, path = (choice["allowed_tools"], "allowed_tools.") if "allowed_tools" in choice else (choice, "")
    tools = inner.get("tools") if isinstance(inner, dict) else None
    mode = inner.get("mode", "auto") if isinstance(inner, dict) else None
    names = [_find_name(tool) for tool in tools] if isinstance(tools, list) else []
    found = [name for name in names if name is not None]
    if mode not in ("auto", "required") or not found or len(found) < len(names):
        raise ValueError("must have the mode auto or required, and tools, a list of tools with names")
    return AllowedTools(mode, found, f"{path}tools")


def _find_name(tool: Any) -> str | None:
    """Return the name of a tool: in an object under its type, or beside the type."""
    if not isinstance(tool, dict) or (kind := tool.get("type", "function")) not in ("function", "custom"):
        return None
    holder = tool if "type" in tool and kind not in tool else tool.get(kind)
    name = holder.get("name") if isinstance(holder, dict) else None
    return name if isinstance(name, str) else None


def _parse_choice(value: Any) -> Any:
    """Write a choice of any API in the form of chat completions. `any` is AgentScope's old name for `required`."""
    if not isinstance(value, dict):
        return "required" if value == "any" else value
    if parse_allowed_tools(value) is not None:
        return value
    if value.get("disable_parallel_tool_use"):
        raise ValueError("set parallel_tool_calls to false instead of disable_parallel_tool_use")
    name = _find_name(value)
    if name is not None:
        return {"type": "function", "function": {"name": name}}
    choice = read_server_choice(value) or read_choice(value)
    if choice is None:
        raise ValueError(
            'must be "auto", "none", "required", the name of a function, {"function": {"name": "the name"}}, or an'
            ' object of the type "allowed_tools"'
        )
    return choice


Choice = Annotated[str | dict[str, Any] | None, AfterValidator(_parse_choice)]


class GenerationParams(BaseModel):
    """The parameters that the gateway knows."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    temperature: Number | None = Field(default=None, ge=0)
    top_p: Number | None = Field(default=None, ge=0, le=1)
    top_k: Int64 | None = Field(default=None, ge=-1)
    min_p: Number | None = Field(default=None, ge=0, le=1)
    repetition_penalty: Number | None = Field(default=None, gt=0)
    presence_penalty: Number | None = None
    frequency_penalty: Number | None = None
    logit_bias: Annotated[dict[str, Number] | None, max_entries(10_000)] = None
    max_tokens: Int64 | None = Field(default=None, ge=1)
    max_completion_tokens: Int64 | None = Field(default=None, ge=1)
    seed: Int64 | None = None
    n: int | None = Field(default=None, ge=1, le=1)
    """Only 1 is allowed, because a request gets one reply."""
    stop: Annotated[str | list[str] | None, max_entries(1000)] = None
    """At most as many as `max_stop_words` of the model's profile."""

    function_choice: Choice = None
    """`auto`, `none`, `required` or the name of a function."""
    tool_choice: Choice = None
    parallel_function_calls: bool | None = None
    parallel_tool_calls: bool | None = None

    enable_thinking: bool | None = None
    thinking_budget: Int64 | None = Field(default=None, ge=0)
    reasoning_effort: str | None = None
    response_format: Annotated[dict[str, Any] | None, AfterValidator(read_response_format)] = None
    stream_options: dict[str, Any] | None = None
    """Sent to servers that stream. The gateway requests usage whatever `include_usage` is."""

    request_timeout: Number | None = Field(default=None, gt=0, le=MAX_SECONDS)
    """Seconds: the limit of each wait for the model server (to connect, for the first token, between tokens)."""
    max_retries: int | None = Field(default=None, ge=0, le=10)
    """How often a request is sent again if it fails before the first event of the reply."""

    lang: Literal["en", "zh"] | None = None
    use_raw_api: bool | None = None
    fncall_prompt_type: Literal["nous", "qwen"] | None = None
    thought_in_content: bool | None = None
    max_input_tokens: Int64 | None = None
    incremental_output: bool | None = None
    skip_stopword_postproc: bool | None = None
    repair_arguments: bool | None = None
    """Repair the arguments of tool calls that are invalid JSON."""

    def given_params(self) -> dict[str, Any]:
        """Return the parameters that the caller gave, with None for those that were given as null."""
        given = self.model_fields_set
        return {name: value for name, value in vars(self).items() if value is not None or name in given}


class GenerateCfg(GenerationParams):
    extra_body: dict[str, Any] | None = None


UNSENT = frozenset(
    {
        "request_timeout",
        "max_retries",
        "lang",
        "use_raw_api",
        "fncall_prompt_type",
        "thought_in_content",
        "max_input_tokens",
        "incremental_output",
        "skip_stopword_postproc",
        "repair_arguments",
    }
)
"""Parameters for the gateway itself, which are not sent to a model server."""
PREFERRED_EFFORT = "preferred_effort"
"""A parameter that no caller can set: the effort of Anthropic's clients, which send one to every model. It becomes
`reasoning_effort` only where the model's profile says that the model takes one."""


_OPENAI_PARAMS = """
    audio best_of echo function_call functions logprobs metadata modalities moderation prediction prompt_cache_key
    prompt_cache_retention safety_identifier service_tier store suffix top_logprobs user verbosity
    web_search_options
"""
_VLLM_AND_SGLANG_PARAMS = """
    add_generation_prompt add_special_tokens allowed_token_ids bad_words bootstrap_host bootstrap_port
    bootstrap_room cache_salt chat_template chat_template_kwargs continue_final_message custom_labels
    custom_logit_processor custom_params data_parallel_rank documents ebnf extra_key guided_choice
    guided_decoding_backend guided_grammar guided_json guided_regex guided_whitespace_pattern ignore_eos
    include_reasoning include_stop_str_in_output input_ids json_schema kv_transfer_params length_penalty
    logits_processors lora_path media_io_kwargs min_tokens mm_processor_kwargs no_stop_trim priority prompt_logprobs
    regex repetition_detection request_id return_hidden_states return_token_ids return_tokens_as_token_ids rid
    routed_dp_rank separate_reasoning session_id session_params skip_special_tokens spaces_between_special_tokens
    stop_regex stop_token_ids stream_reasoning structural_tag structured_outputs thinking_token_budget
    truncate_prompt_tokens use_beam_search vllm_xargs
"""
_LOCAL_SERVER_PARAMS = """
    adapter_id cache_prompt character decoder_input_details do_sample draft_model dry_allowed_length dry_base
    dry_multiplier dry_penalty_last_n dry_sequence_breakers dynatemp_exponent dynatemp_range epsilon_cutoff
    eta_cutoff format generation_config grammar grammar_lazy grammar_triggers guidance_scale id_slot
    instruction_template keep_alive logit_bias_type lora max_new_tokens min_keep mirostat mirostat_eta mirostat_mode
    mirostat_tau mode n_discard n_indent n_keep n_predict n_probs num_beams num_ctx num_predict options
    parse_tool_calls penalize_nl penalty_alpha post_sampling_probs raw reasoning_budget_tokens reasoning_format
    reasoning_in_content repeat_last_n repeat_penalty return_full_text return_progress samplers smoothing_curve
    smoothing_factor speculative system t_max_predict_ms temperature_last template tfs tfs_z think
    thinking_budget_tokens thinking_forced_open timings_per_token top_a top_n_sigma truncate ttl typical typical_p
    watermark xtc_probability xtc_threshold
"""
"""llama.cpp, llama-cpp-python, Ollama, LM Studio, text-generation-webui, TGI, transformers."""
_HOSTED_SERVER_PARAMS = """
    api_base api_key asr_options bot_setting cached_content citation_options compound_custom
    context_length_exceeded_behavior custom_llm_provider deferred disable_search disable_tool_validation drop_params
    enable_code_interpreter enable_search exclude_domains extra_headers extra_query fallbacks google guardrails
    include include_domains mask_sensitive_info mock_response models num_retries partial perf_metrics_in_response
    plugins prefix preset prompt_mode prompt_truncate_len prompt_truncate_length provider providers random_seed
    raw_output reasoning reasoning_split reply_constraints result_format return_images return_related_questions
    route safe_prompt safety_model safety_settings search_domain_filter search_mode search_options search_parameters
    search_recency_filter search_settings tags thinking timeout tool_stream transforms translation_options usage
    user_id vl_high_resolution_images
"""
"""DashScope, DeepSeek, Moonshot, Zhipu, MiniMax, SiliconFlow, OpenRouter, Groq, Mistral, xAI, Gemini, Perplexity,
Fireworks, LiteLLM."""
SERVER_PARAMS = frozenset(
    f"{_OPENAI_PARAMS} {_VLLM_AND_SGLANG_PARAMS} {_LOCAL_SERVER_PARAMS} {_HOSTED_SERVER_PARAMS}".split()
)
"""Parameters of known servers that `GenerateCfg` does not have. They are never treated as misspellings."""
READ_PARAMS = frozenset(
    {
        *("asr_options", "bot_setting", "character", "chat_template", "chat_template_kwargs", "documents"),
        *("instruction_template", "plugins", "prediction", "prefix", "preset", "reply_constraints", "suffix"),
        *("system", "template", "translation_options"),
    }
)
"""Those of them whose texts a model reads."""
UNREADABLE_PARAMS = frozenset({"input_embeds", "input_ids", "prompt_embeds", "prompt_token_ids"})
"""Parameters of vLLM and SGLang that stand for the conversation, and are no text."""

_ROUTING_NAMES = """
    api_base api_key api_version azure_ad_token compound_custom extra_headers extra_query headers kv_transfer_params
    litellm_params mcp_servers organization plugins preset tags user_config
"""
"""LiteLLM's, Groq's systems of several models, OpenRouter's presets and plugins (a plugin can call other models), the
address of another server's KV cache (vLLM), and servers of tools."""
_ROUTING_PARAMS = frozenset(_ROUTING_NAMES.split())
_ROUTING_NAME_WORDS = """
    adapter adapters deployment deployments endpoint endpoints engine fallback fallbacks host hosts lora model models
    port provider providers proxy route router routing url urls
"""
_ROUTING_WORDS = frozenset(_ROUTING_NAME_WORDS.split())
"""A parameter of `extra_body` whose name has one of these words chooses a model, the server that answers for it, or an
address: OpenRouter's `models`, `route` and `provider`, LiteLLM's `context_window_fallbacks` and `base_url`, Vercel's
`providerOptions`, SGLang's `lora_path` and `bootstrap_host`, LM Studio's `draft_model`, TGI's `adapter_id`."""
ROUTING_CONTAINERS = frozenset(
    {"extra_body", "generationConfig", "google", "litellm_metadata", "metadata", "nvext", "options"}
)
"""Fields in which some servers read such parameters too: LiteLLM, Gemini, Dynamo, Ollama."""
_SCHEMAS = frozenset(
    {"input_schema", "json_schema", "parameters", "properties", "schema"}
    | {"parametersJsonSchema", "responseJsonSchema", "responseSchema"}
)
"""Fields whose names are the caller's own."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_JOINED_ROUTING_PARAMS = frozenset(name.replace("_", "") for name in _ROUTING_PARAMS) | {
    *("baseurl", "draftmodel", "fallbackmodel", "fallbackmodels", "lorapath", "modelid", "modelname"),
}
"""Names whose words are not divided."""


@recall_names
def chooses_route(name: str) -> bool:
    """Whether a parameter of `extra_body` chooses a model, the server that answers for it, or an address, in whichever
    spelling: `api_base`, `apiBase`, `API-BASE`."""
    if any(word.lower() in _ROUTING_WORDS for word in _WORD.findall(name)):
        return True
    joined = "".join(filter(str.isalnum, name)).lower()
    return joined in _JOINED_ROUTING_PARAMS


def find_routing_params(fields: Any) -> list[tuple[str | int, ...]]:
    """Return what chooses a model, the server that answers for it, or an address in a value of any nesting: for each
    the keys that lead to it."""
    found: list[tuple[str | int, ...]] = []
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), fields)]
    while waiting:
        keys, value = waiting.pop()
        if isinstance(value, dict):
            for name, inner in value.items():
                if chooses_route(name):
                    found.append((*keys, name))
                elif name not in _SCHEMAS:
                    waiting.append(((*keys, name), inner))
        elif isinstance(value, list):
            waiting += (((*keys, place), inner) for place, inner in enumerate(value))
    return sorted(found, key=lambda path: [str(key) for key in path])


_SYNONYMS = (
    {"max_tokens", "max_completion_tokens"},
    {"function_choice", "tool_choice"},
    {"parallel_function_calls", "parallel_tool_calls"},
)


def merge_params(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model's default parameters, overridden by those that the caller gave.

    Stop words of both are joined. Every other parameter of the caller replaces the default, under either of its names;
    None removes the default. Where `extra_body` of the defaults chooses a model or a server, that stays unless the
    caller chooses another one.
    """
    replaced = {name for names in _SYNONYMS if names & given.keys() for name in names}
    remaining = {name: value for name, value in defaults.items() if name not in replaced}
    params = {name: value for name, value in {**remaining, **given}.items() if value is not None}
    if defaults.get("stop") is not None and given.get("stop") is not None:
        base = _to_list(defaults["stop"])
        params["stop"] = base + [word for word in _to_list(given["stop"]) if word not in base]
    if "extra_body" in given and isinstance(defaults.get("extra_body"), dict):
        chosen = {name: value for name, value in defaults["extra_body"].items() if chooses_route(name)}
        if chosen:
            params["extra_body"] = {**chosen, **(given["extra_body"] or {})}
    return params


def find_max_tokens(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> int | None:
    """Return how many tokens a reply may have, under either name of that parameter; None if there is no limit. If both
    names have a value, the smaller one counts.

    What the caller gave replaces the default, as in `merge_params`.
    """
    params = given if "max_tokens" in given or "max_completion_tokens" in given else defaults
    limits = [limit for name in ("max_tokens", "max_completion_tokens") if (limit := params.get(name)) is not None]
    return min(limits, default=None)


def read_number(value: Any) -> int:
    """Return a whole number above 0 in any form in which servers read one (`2`, `2.0`, `"2"`), at most `_MOST`; 0 for
    what is none."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(min(max(value, 0), _MOST))


_DIGITS = re.compile(r"\s*\+?[0-9]{1,30}(\.[0-9]{0,30})?\s*")
_MOST = 1_000_000_000
"""No server writes more."""


def _to_list(stop: str | list[str]) -> list[str]:
    return [stop] if isinstance(stop, str) else list(stop)


Searcher = Literal["keyword_search", "front_page_search", "vector_search"]
_SEARCHERS: dict[str, tuple[Searcher, ...]] = {
    "hybrid": ("keyword_search", "front_page_search"),
    "keyword": ("keyword_search",),
    "vector": ("vector_search",),
}
_PassageTokens: TypeAlias = Annotated[int, Field(ge=32, le=100_000)]


class RagConfig(BaseModel):
    """How the passages of long files are chosen: Qwen-Agent's `rag_cfg`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    max_ref_token: int = Field(
        default=20_000,
        ge=100,
        le=10_000_000,
        description="Tokens for the passages of all files together. Files with no more are put in whole.",
    )
    parser_page_size: _PassageTokens | None = Field(default=None, description="Tokens of a passage: 500.")
    chunk_size: _PassageTokens | None = Field(default=None, description="Another name of `parser_page_size`.")
    chunk_overlap: int = Field(
        default=50, ge=0, le=50_000, description="Tokens at the end of a passage that the next one begins with."
    )
    top_k: int | None = Field(default=None, ge=1, le=10_000, description="The largest number of passages.")
    retrieval_type: Literal["hybrid", "keyword", "vector"] = Field(
        default="hybrid",
        description="`rag_searchers` in short. `hybrid` has `vector_search` with an `embedding_model`.",
    )
    rag_searchers: list[Searcher] | None = Field(
        default=None,
        min_length=1,
        description=(
            "`keyword_search` ranks by the words of the question (BM25), `vector_search` by embeddings;"
            " `front_page_search` puts the first two passages of the only file before the others."
        ),
    )
    embedding_model: str | None = Field(
        default=None, min_length=1, max_length=512, description="A model of the upstream's /v1/embeddings."
    )
    score_threshold: float | None = Field(
        default=None, ge=-1, le=1, description="The least similarity of the embeddings of a passage and the question."
    )
    rag_keygen_strategy: str | None = Field(default=None, description="Has no effect: the question itself is searched.")
    index_path: str | None = Field(default=None, description="Has no effect: nothing is kept between requests.")

    @model_validator(mode="after")
    def _check(self) -> "RagConfig":
        if self.parser_page_size is not None and self.chunk_size is not None:
            raise ValueError("parser_page_size and chunk_size are two names of the same number: set only one of them")
        if "vector_search" in self._searchers and self.embedding_model is None:
            raise ValueError(
                "vector_search needs embedding_model: the name of a model of the upstream's /v1/embeddings"
            )
        if self.chunk_overlap >= self._passage_tokens:
            raise ValueError(f"chunk_overlap must be less than parser_page_size, {self._passage_tokens}")
        return self

    @property
    def _passage_tokens(self) -> int:
        return self.parser_page_size or self.chunk_size or 500

    @property
    def _searchers(self) -> tuple[Searcher, ...]:
        if self.rag_searchers is not None:
            return tuple(self.rag_searchers)
        found = _SEARCHERS[self.retrieval_type]
        if self.retrieval_type == "hybrid" and self.embedding_model is not None:
            return (*found, "vector_search")
        return found

    def to_search(self) -> PassageSearch:
        searchers = self._searchers
        uses_embeddings = "vector_search" in searchers
        return PassageSearch(
            self.max_ref_token,
            self._passage_tokens,
            self.chunk_overlap,
            self.top_k,
            "keyword_search" in searchers,
            "front_page_search" in searchers,
            self.embedding_model if uses_embeddings else None,
            self.score_threshold if uses_embeddings else None,
        )

    def list_warnings(self) -> list[str]:
        """Return what has no effect, in sentences for the caller."""
        found: dict[str, Any] = {
            "rag_keygen_strategy": self.rag_keygen_strategy not in (None, "none", "None"),
            "index_path": self.index_path is not None,
            "score_threshold": self.score_threshold is not None and "vector_search" not in self._searchers,
            "embedding_model": self.embedding_model is not None and "vector_search" not in self._searchers,
        }
        reasons = {
            "rag_keygen_strategy": "the words of the question itself are searched",
            "index_path": "files are searched again in each request",
            "score_threshold": "it is for vector_search",
            "embedding_model": "it is for vector_search",
        }
        return [f"rag_cfg.{name} has no effect: {reasons[name]}" for name, is_idle in found.items() if is_idle]
