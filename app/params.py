"""Generation parameters as a caller may say them: Qwen-Agent's `generate_cfg`, and OpenAI's names for the same.

A key that is not here is an error that names it; `extra_body` takes anything.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

Number = Annotated[float, Field(allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""No server reads more than 64 bits."""
MAX_SECONDS = 10 * 365 * 24 * 3600
"""Ten years: no clock and no store is asked for more."""


def at_most(number: int) -> BeforeValidator:
    """Refuses a longer list or object before its entries are looked at."""

    def check(value: Any) -> Any:
        if isinstance(value, list | dict) and len(value) > number:
            raise ValueError(f"has {len(value)} entries; at most {number} are allowed")
        return value

    return BeforeValidator(check)


def _choice(value: Any) -> Any:
    """`any` is AgentScope's old word for `required`."""
    if not isinstance(value, dict):
        return "required" if value == "any" else value
    function = value.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ValueError('must be a word, a name, or an object that says {"function": {"name": …}}')
    return value


Choice = Annotated[str | dict[str, Any] | None, AfterValidator(_choice)]


class GenerateCfg(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    temperature: Number | None = Field(default=None, ge=0)
    top_p: Number | None = Field(default=None, ge=0, le=1)
    top_k: Whole | None = Field(default=None, ge=-1)
    min_p: Number | None = Field(default=None, ge=0, le=1)
    repetition_penalty: Number | None = Field(default=None, gt=0)
    presence_penalty: Number | None = None
    frequency_penalty: Number | None = None
    logit_bias: Annotated[dict[str, Number] | None, at_most(10_000)] = None
    max_tokens: Whole | None = Field(default=None, ge=1)
    max_completion_tokens: Whole | None = Field(default=None, ge=1)
    seed: Whole | None = None
    n: int | None = Field(default=None, ge=1, le=1)
    """One reply a request: only 1 is allowed."""
    stop: Annotated[str | list[str] | None, at_most(1000)] = None
    """A model takes at most `max_stop_words` of its profile."""

    function_choice: Choice = None
    """`auto`, `none`, `required` or the name of a function."""
    tool_choice: Choice = None
    parallel_function_calls: bool | None = None
    parallel_tool_calls: bool | None = None

    enable_thinking: bool | None = None
    thinking_budget: Whole | None = Field(default=None, ge=0)
    reasoning_effort: str | None = None
    response_format: dict[str, Any] | None = None
    extra_body: dict[str, Any] | None = None
    stream_options: dict[str, Any] | None = None
    """Sent to servers that stream. Usage is always asked for, whatever `include_usage` says."""

    request_timeout: Number | None = Field(default=None, gt=0, le=MAX_SECONDS)
    """Seconds: no wait for the model server (to connect, for the first token, between tokens) is longer."""
    max_retries: int | None = Field(default=None, ge=0, le=10)
    """How often a request that failed before anything was said is sent again."""

    lang: Literal["en", "zh"] | None = None
    use_raw_api: bool | None = None
    fncall_prompt_type: Literal["nous", "qwen"] | None = None
    thought_in_content: bool | None = None
    max_input_tokens: Whole | None = None
    incremental_output: bool | None = None
    skip_stopword_postproc: bool | None = None
    repair_arguments: bool | None = None
    """Arguments of calls that are broken JSON are repaired."""

    def given(self) -> dict[str, Any]:
        """What was given, without what was left open; None for a key that was given as null."""
        return {name: value for name, value in self if value is not None or name in self.model_fields_set}


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
"""The gateway's own business: never sent to a model server."""


_SYNONYMS = (
    {"max_tokens", "max_completion_tokens"},
    {"function_choice", "tool_choice"},
    {"parallel_function_calls", "parallel_tool_calls"},
)


def merged(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The caller's parameters over the model's defaults. Stop words are joined, everything else is replaced, also
    where the two use different names for it. A parameter that the caller gives as None has no default."""
    replaced = {name for names in _SYNONYMS if names & given.keys() for name in names}
    kept = {name: value for name, value in defaults.items() if name not in replaced}
    params = {name: value for name, value in {**kept, **given}.items() if value is not None}
    if defaults.get("stop") is not None and given.get("stop") is not None:
        base = _words(defaults["stop"])
        params["stop"] = base + [word for word in _words(given["stop"]) if word not in base]
    return params


def _words(stop: str | list[str]) -> list[str]:
    return [stop] if isinstance(stop, str) else list(stop)
