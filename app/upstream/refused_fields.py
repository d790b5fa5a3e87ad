"""Change a body that a server has refused because of one field: without the field, with its other name, or with a
choice of tools in a form that each server knows.

Servers refuse fields that others read, and do not say so in a document. Each change is made after one refusal, and then
in every body of that caller to that model.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from app.upstream.api import Repair
from app.upstream.refused_schemas import SCHEMA_REPAIRS
from app.upstream.unknown_fields import drop_fields

Json = dict[str, Any]
_REFUSAL = (
    r"unknown|unsupported|unrecogni[sz]ed|unexpected|not (?:supported|permitted|allowed|recogni[sz]ed)|only allowed|"
    r"extra (?:inputs|fields)|cannot find field|no such (?:field|parameter)"
)
"""What servers say of a field that they refuse."""
_REFUSED_CHOICE = re.compile(
    r"\A(?>.*?tool_choice\b).*?(?:'object'|string values|valid string|must be a string|expected (?:a )?string)",
    re.IGNORECASE | re.DOTALL,
)
"""Its beginning is matched once: otherwise each name in a hostile message would be a new one. The sources are LM
Studio, Groq and pydantic: earendil-works/pi issue 4266, plmbr/notebook-intelligence PR 115."""


_RANGE = r"between|range|(?:less|greater) than|at (?:most|least)|max(?:imum)? |min(?:imum)? |\bmust be\b"
"""What servers say of a value that they would take in another size: that is for the caller to know."""
_NO_OPTION = rf"{_REFUSAL}|(?:does not|doesn't|cannot) support|deprecated|only the default|only [\d.]+ is allowed"
SAMPLING = ("temperature", "top_p", "top_k")
_HINTS = (
    *("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "safety_identifier", "user", "metadata"),
    *("stream_options", "store", "service_tier", "parallel_tool_calls"),
)
"""Fields that say nothing of the reply's text: they find a cache, name a caller, ask for the usage, keep the reply at
the server, or say how it comes (lyral-commits in NVIDIA/NemoClaw issue 10549)."""
_OPTIONS = (
    *(*SAMPLING, "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed"),
    *("logit_bias", "logprobs", "top_logprobs", "stop", "reasoning_effort", "verbosity"),
)
"""Options of the reply that not every model takes (JetBrains/junie issue 39, charmbracelet/crush issue 386)."""
_REPEATED = ("reasoning_content", "reasoning_details", "thinking_blocks", "extra_content", "cache_control")
"""Fields of messages, of their parts and of their calls that repeat a reply's reasoning, or mark what is cached."""
TOOL_FIELDS = ("strict", "eager_input_streaming", "defer_loading", "allowed_callers", "input_examples")
"""Fields of a function that say how it is called or shown, and nothing of what it is: Cohere, also behind OpenRouter
(OpenRouterTeam/openrouter-examples issue 71), Bedrock (anthropics/claude-agent-sdk-python issue 694), and others
(livekit/agents#3134)."""
_PLACES = {
    "reasoning_effort": ("reasoning_effort", "reasoning.effort"),
    **{name: (name, f"*.{name}") for name in _REPEATED},
    **{name: (f"tools.*.{name}",) for name in TOOL_FIELDS},
}
"""Where a field may be, as `drop_fields` has it, if not at the top of the body."""
_SETTINGS = {
    "stream_options": "Set `stream_usage = false`",
    **dict.fromkeys(_REPEATED, "Set replay_reasoning, replay_details, replay_extra_content or cache_control"),
}


def make_field_repairs(names: Iterable[str] = (*_HINTS, *_OPTIONS, *_REPEATED, *TOOL_FIELDS)) -> dict[str, Repair]:
    """Return a repair for each of these fields, by its name: the body without it. Servers refuse them in many words; of
    any other field a server must say that it does not know it (`unknown_fields`)."""
    return {name: Repair(_find_words(name), _leave_out(name), _describe(name)) for name in names}


def _find_words(name: str) -> re.Pattern[str]:
    if name in _OPTIONS:
        return _compile(name, _NO_OPTION, _RANGE)
    if name in TOOL_FIELDS:
        # Anthropic: "reduce the number of strict tools" (alphaXiv/agents#49)
        return re.compile(
            rf"number of {name} tools|"
            rf"\A(?=.*?(?:[`'\".]|\bwith ){name}\b)(?=.*?(?:{_REFUSAL}|not a valid field))",
            re.IGNORECASE | re.DOTALL,
        )
    return _compile(name, rf"{_REFUSAL}|additional (?:properties|property)")


def _compile(name: str, refusal: str, otherwise: str = "") -> re.Pattern[str]:
    """Return the pattern of a message that names a field and refuses it. Each is looked for once, wherever the other
    one is: a hostile message would have many of both."""
    # A name that is a common word must be quoted, or stand as a path does.
    quoted = rf"[`'\"]{name}(?:\.\w+)?[`'\"]|(?:^|\bbody\.){name}:|\binvalid {name}: only "
    word = quoted if "_" not in name else rf"(?<!\w)(?:{_spell(name)})(?!\w)"
    but = rf"(?!.*?(?:{otherwise}))" if otherwise else ""
    return re.compile(rf"\A(?=.*?(?:{word}))(?=.*?(?:{refusal})){but}", re.IGNORECASE | re.DOTALL)


def _spell(name: str) -> str:
    """Return a name in both spellings: xAI refuses `reasoningEffort`."""
    return f"{name}|{name.replace('_', '')}"


def _describe(name: str) -> str:
    said = f"the model server refused {name}: the request was sent without it"
    return (
        said
        if name in TOOL_FIELDS
        else f"{said}. {_SETTINGS.get(name, f'Add {name} to `lacks`')} in the model's profile"
    )


def _leave_out(name: str) -> Callable[[Json], Json | None]:
    return lambda body: drop_fields(body, _PLACES.get(name, (name,)))


def _without(name: str, body: Json) -> Json:
    return {field: value for field, value in body.items() if field != name}


def _rename(name: str, other: str) -> Callable[[Json], Json | None]:
    def change(body: Json) -> Json | None:
        if name not in body:
            return None
        rest = _without(name, body)
        return rest if other in body else {**rest, other: body[name]}

    return change


RENAMED = {
    name: Repair(
        _compile(name, _REFUSAL),
        _rename(name, other),
        f"the model server refused {name}: the limit was sent as {other}. Set max_tokens_field in the model's profile",
    )
    for name, other in (("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens"))
}
"""The two names of the limit of tokens, of which many servers know one."""


def _switch_effort_off(body: Json) -> Json | None:
    if not body.get("tools") or "messages" not in body or body.get("reasoning_effort") == "none":
        return None
    return {**body, "reasoning_effort": "none"}


_EFFORT_REPAIRS = {
    # GEMISIS/leviath#333, laurent22/joplin#16451: such a model refuses its own default, too
    "effort_none": Repair(
        re.compile(r"set reasoning_effort to .?none", re.IGNORECASE),
        _switch_effort_off,
        "this model thinks only without functions over chat completions: it was sent the effort none. Set `api = "
        '"responses"` of the upstream',
    ),
}


def _leave_out_encrypted(body: Json) -> Json | None:
    included = body.get("include")
    if not isinstance(included, list) or _ENCRYPTED not in included:
        return None
    left = [one for one in included if one != _ENCRYPTED]
    return {**body, "include": left} if left else _without("include", body)


_ENCRYPTED = "reasoning.encrypted_content"
REASONING_REPAIRS = {
    "encrypted_content": Repair(
        re.compile(r"encrypted content is not supported", re.IGNORECASE),
        _leave_out_encrypted,
        "this model does not encrypt its reasoning: the request was sent without asking for it",
    ),
    "reasoning": Repair(
        _compile("reasoning", _NO_OPTION, _RANGE),
        _leave_out("reasoning"),
        "this model takes no options of reasoning: the request was sent without them. Set efforts = [] in its profile",
    ),
}
"""What models of the Responses API without reasoning refuse; Codex asks for both with every request."""


def _ask_for_json(body: Json) -> Json | None:
    """Return the body in which the last message of the user asks for JSON; None if it wants none."""
    name = "input" if "input" in body else "messages"
    return _ask_user(body, name, _JSON_TEXT) if _wants_object(body) else None


def _ask_user(body: Json, name: str, words: str) -> Json | None:
    """Return the body with these words in the last message of the user; None if there is none."""
    entries = body[name] if isinstance(body[name], list) else [{"role": "user", "content": body[name]}]
    users = [place for place, entry in enumerate(entries) if isinstance(entry, dict) and entry.get("role") == "user"]
    if not users:
        return None
    user = entries[users[-1]]
    content, kind = user.get("content"), "input_text" if name == "input" else "text"
    if isinstance(content, list):
        asked: Any = [*content, {"type": kind, "text": words}]
    else:
        asked = f"{content or ''}\n\n{words}".lstrip()
    return {**body, name: [*entries[: users[-1]], {**user, "content": asked}, *entries[users[-1] + 1 :]]}


def _wants_object(body: Json) -> bool:
    text = body.get("text")
    formats = (body.get("response_format"), text.get("format") if isinstance(text, dict) else None)
    return any(isinstance(one, dict) and one.get("type") == "json_object" for one in formats)


_JSON_TEXT = "Reply with one JSON object and nothing else."
JSON_REPAIR = {
    "json_word": Repair(
        re.compile(r"must contain the word .?json\b", re.IGNORECASE),
        _ask_for_json,
        "the model server takes json_object only if a message has the word JSON: the last one of the user asks for it",
    )
}
"""OpenAI, DeepSeek, DashScope and proxies to them (plastic-labs/honcho issue 663)."""


def _offer_chosen_tool(body: Json) -> Json | None:
    """Return the body with only the function that is chosen, and a demand for a call; None if none is chosen."""
    choice, tools = body.get("tool_choice"), body.get("tools")
    name = _find_name(choice) if isinstance(choice, dict) else None
    chosen = [tool for tool in tools if _find_name(tool) == name] if isinstance(tools, list) and name else []
    return {**body, "tools": chosen, "tool_choice": "required"} if chosen else None


def _find_name(holder: Any) -> Any:
    """Return the name of a function, which chat completions have in an object of its own."""
    if not isinstance(holder, dict):
        return None
    function = holder.get("function")
    return function.get("name") if isinstance(function, dict) else holder.get("name")


CHOICE_REPAIR = {
    "named_tool_choice": Repair(
        _REFUSED_CHOICE,
        _offer_chosen_tool,
        "the model server takes no object as tool_choice: only the chosen function was offered, with `required`. Set "
        "`named_tool_choice = false` in the model's profile",
    )
}


def _leave_choice_open(body: Json) -> Json | None:
    return None if body.get("tool_choice") in (None, "auto", "none") else {**body, "tool_choice": "auto"}


_DEMAND_REPAIR = {
    "tool_choice": Repair(
        re.compile(
            rf"\A(?=.*?(?<!\w)tool_choice\b)(?=.*?(?:{_REFUSAL}|does not support|only .?auto|no endpoints found))",
            re.IGNORECASE | re.DOTALL,
        ),
        _leave_choice_open,
        "the model server takes no demand for a call: it was sent `auto`. Set `tool_choice_required` or "
        "`forced_choice_while_thinking` in the model's profile",
    )
}
"""Models that think at DashScope and DeepSeek (cloudwego/eino issue 994, deepseek-ai/DeepSeek-V3 issue 1376), and GLM,
also behind OpenRouter (zed-industries/zed#36094)."""


def _cut_descriptions(body: Json) -> Json | None:
    tools = body.get("tools")
    if not isinstance(tools, list):
        return None
    cut = [_cut_description(tool) for tool in tools]
    return None if cut == tools else {**body, "tools": cut}


def _cut_description(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return tool
    if isinstance(tool.get("function"), dict):
        return {**tool, "function": _cut_description(tool["function"])}
    text = tool.get("description")
    if not isinstance(text, str) or len(text) <= _MAX_DESCRIPTION:
        return tool
    return {**tool, "description": text[: _MAX_DESCRIPTION - 1] + "…"}


_MAX_DESCRIPTION = 1024
_DESCRIPTION_REPAIR = {
    "description": Repair(
        re.compile(r"\bdescription\W{1,3}string too long", re.IGNORECASE),
        _cut_descriptions,
        f"the model server takes no longer descriptions of functions: they were cut to {_MAX_DESCRIPTION} characters",
    )
}
"""OpenAI and Azure (probelabs/probe#9, janwilmake/openapi-mcp-server#23)."""


def _ask_for_format(body: Json) -> Json | None:
    """Return the body without its format, for which the user's last message asks in words."""
    name = "input" if "input" in body else "messages"
    text = body.get("text")
    given = text.get("format") if isinstance(text, dict) else body.get("response_format")
    if not isinstance(given, dict) or given.get("type") not in ("json_object", "json_schema"):
        return None
    holder = given.get("json_schema")
    schema = holder.get("schema") if isinstance(holder, dict) else given.get("schema")
    asked = _JSON_TEXT if schema is None else f"{_SCHEMA_TEXT}\n{json.dumps(schema, ensure_ascii=False)}"
    rest = _without("response_format", body)
    if isinstance(text, dict):
        left = _without("format", text)
        rest = {**rest, "text": left} if left else _without("text", rest)
    return _ask_user(rest, name, asked)


_SCHEMA_TEXT = "Reply with JSON that is valid against this JSON schema, and nothing else:"
_FORMAT_REPAIR = {
    "response_format": Repair(
        re.compile(
            rf"\A(?=.*?(?:response_format|text\.format))(?=.*?(?:{_REFUSAL}|unavailable|does not support))"
            r"(?!.*?(?:invalid schema|in context|\.schema\b))",
            re.IGNORECASE | re.DOTALL,
        ),
        _ask_for_format,
        "the model server refused the format of the reply: the last message of the user asks for it in words. Set "
        "response_formats in the model's profile",
    )
}
"""DeepSeek behind other servers: "This response_format type is unavailable now" (agentscope-ai/agentscope PR 1527)."""

OPENAI_REPAIRS = {
    **SCHEMA_REPAIRS,
    **_EFFORT_REPAIRS,
    **make_field_repairs(),
    **RENAMED,
    **CHOICE_REPAIR,
    **JSON_REPAIR,
    **_DEMAND_REPAIR,
    **_DESCRIPTION_REPAIR,
    **_FORMAT_REPAIR,
}
"""What servers of OpenAI's two APIs refuse."""
