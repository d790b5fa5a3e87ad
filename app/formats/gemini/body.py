"""The bodies of requests in Google's Gemini API, below `/v1beta/models/{model}`.

What a model server can be asked for is translated; what only Google's servers do is refused where the caller wants
another reply without it, and else ignored, with a warning if it changes the reply. Fields that are not known are
ignored with a warning. The name of the model, and whether the reply is a stream, are in the path.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from app.chat.messages import ChatRequest, Message, RequestPaths, Source, Text, Tool
from app.chat.tool_asks import ServerTools
from app.errors import InvalidInput, ParleyError, Violation
from app.formats.base import Format, Options, ReplyMode
from app.formats.body import CacheChoice, CacheControl, ParsedRequest, RejectedRequest, ReplySettings
from app.formats.gemini import GEMINI, GEMINI_ARRAY, GEMINI_CUT
from app.formats.gemini.json_schema import read_schema
from app.formats.gemini.parse import ParsedContents, parse_contents
from app.formats.gemini.passed import make_passed_request
from app.formats.gemini.schema import DATA_FIELDS, GeminiContent
from app.formats.gemini.spelling import canonicalize, has_doubles, name_fields, spell_all, to_snake
from app.formats.gemini.tools import GeminiToolConfig, choose_tools, parse_tools
from app.formats.json_object import list_repairs, parse_object
from app.formats.request_limits import RequestLimits, find_invalid_fields, find_long_lists, limit_warnings
from app.formats.request_memory import CallerMemory, recall
from app.formats.server_asks import make_server_tools
from app.other_apis import SCHEMA_NAME
from app.params import GenerateCfg, Int64, Number
from app.validation.violations import json_path, to_violations

_STRICT = ConfigDict(extra="allow", strict=True)


def _read_whole(value: Any) -> Any:
    """Return a whole number of any form: the SDKs send `topK` as a float."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value


_Whole = Annotated[Int64 | None, BeforeValidator(_read_whole)]


class GeminiThinkingConfig(BaseModel):
    model_config = _STRICT

    includeThoughts: bool | None = None
    thinkingBudget: Annotated[_Whole, Field(ge=-1)] = None
    thinkingLevel: str | None = None


class GeminiGenerationConfig(BaseModel):
    """`generationConfig`. It may also have the fields of `generate_cfg`."""

    model_config = _STRICT

    temperature: Annotated[Number | None, Field(ge=0)] = None
    topP: Annotated[Number | None, Field(ge=0, le=1)] = None
    topK: Annotated[_Whole, Field(ge=-1)] = None
    maxOutputTokens: Annotated[_Whole, Field(ge=1)] = None
    stopSequences: Annotated[list[str] | None, Field(max_length=1000)] = None
    seed: _Whole = None
    presencePenalty: Number | None = None
    frequencyPenalty: Number | None = None
    candidateCount: _Whole = None
    responseMimeType: str | None = None
    responseSchema: dict[str, Any] | None = None
    responseJsonSchema: dict[str, Any] | None = None
    responseModalities: list[str] | None = None
    responseLogprobs: bool | None = None
    logprobs: Any = None
    thinkingConfig: GeminiThinkingConfig | None = None


class GenerateContentRequest(BaseModel):
    """The body of a request. It may also have the fields of `generate_cfg`."""

    model_config = _STRICT

    contents: list[GeminiContent] = Field(min_length=1)
    systemInstruction: GeminiContent | str | None = None
    tools: list[dict[str, Any]] | None = None
    toolConfig: GeminiToolConfig | None = None
    generationConfig: GeminiGenerationConfig | None = None
    safetySettings: Any = None
    cachedContent: Any = None
    cache: CacheChoice = Field(default=None, description="An extension of Parley: how to use the cache.")


class _CacheField(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    cache: CacheChoice = None


_NAMES: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maxOutputTokens",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
"""The names here of parameters that are sent on as they are, by the gateway's."""
_PATHS = RequestPaths(
    params="generationConfig.",
    extra_body="",
    conversation="contents",
    names={
        **{name: f"generationConfig.{given}" for name, given in _NAMES.items()},
        "stop": "generationConfig.stopSequences",
        "enable_thinking": "generationConfig.thinkingConfig.thinkingBudget",
        "thinking_budget": "generationConfig.thinkingConfig.thinkingBudget",
        "reasoning_effort": "generationConfig.thinkingConfig.thinkingLevel",
        "response_format": "generationConfig.responseMimeType",
        "tool_choice": "toolConfig.functionCallingConfig",
    },
)
_NOT_PASSED = {"extra_body", "stream_options", "function_choice", "tool_choice", "n"}
_PASSED = frozenset(set(GenerateCfg.model_fields) - _NOT_PASSED)
"""Parameters of `generate_cfg` that clients put at the top of the body or in `generationConfig` (`extra_body` of the
SDKs)."""
_KWARGS = "chat_template_kwargs"
_SILENT = frozenset(("safetySettings", "labels", "serviceTier", "store", "model", "modelArmorConfig"))
_SILENT_CONFIG = frozenset(
    (
        "mediaResolution",
        "audioTimestamp",
        "enableAffectiveDialog",
        "routingConfig",
        "modelSelectionConfig",
        "modelConfig",
    )
)
"""Fields that are for Google's servers, and say nothing that another one could do."""
_UNSERVED_CONFIG = ("speechConfig", "imageConfig")
_KNOWN = frozenset(GenerateContentRequest.model_fields) | _SILENT | _PASSED | {_KWARGS}
_KNOWN_CONFIG = frozenset(GeminiGenerationConfig.model_fields) | _SILENT_CONFIG | _PASSED | {_KWARGS}
_NO_LEVEL = "THINKING_LEVEL_UNSPECIFIED"
_CACHED = (
    "names a conversation that only Google's servers have: send its contents, systemInstruction and tools themselves"
)


class GenerateTarget(Struct, frozen=True):
    """What the path of a request says, and its client."""

    model: str
    stream: bool = False
    array: bool = False
    """A stream is a JSON array instead of server-sent events."""
    skips_errors: bool = False
    """The client skips an error in a stream of events."""

    @property
    def reply_format(self) -> Format:
        if self.array:
            return GEMINI_ARRAY
        return GEMINI_CUT if self.skips_errors else GEMINI


def parse_generate_body(
    raw: bytes | bytearray, limits: RequestLimits, memory: CallerMemory | None = None, *, target: GenerateTarget
) -> ParsedRequest | RejectedRequest:
    """Parse a request for a reply. It is rejected with BadRequest or InvalidInput."""
    return _parse(raw, limits, memory, target, counts=False)


def parse_count_body(
    raw: bytes | bytearray, limits: RequestLimits, memory: CallerMemory | None = None, *, target: GenerateTarget
) -> ParsedRequest | RejectedRequest:
    """Parse a request of `:countTokens`: contents, or a whole request in `generateContentRequest`."""
    return _parse(raw, limits, memory, target, counts=True)


def _parse(
    raw: bytes | bytearray, limits: RequestLimits, memory: CallerMemory | None, target: GenerateTarget, *, counts: bool
) -> ParsedRequest | RejectedRequest:
    given: dict[str, Any] | None = None
    prefix = ""

    def refuse(violations: Iterable[Violation]) -> InvalidInput:
        return InvalidInput([Violation(prefix + one.path, one.message) for one in spell_all(violations, given)])

    try:
        given = parse_object(raw, memory)
        if counts:
            prefix, given = _find_counted(given)
        parsed, foreign = _parse_request(given, limits, target)
    except InvalidInput as error:
        refusal = refuse(error.violations)
        return RejectedRequest(refusal, GEMINI.error, _pass_unread(given, refusal, limits, target))
    except ParleyError as error:
        return RejectedRequest(error, GEMINI.error)
    repairs = list_repairs(given)
    parsed = replace(parsed, warnings=limit_warnings([*repairs, *parsed.warnings]), repairs=tuple(repairs))
    if not foreign:
        return parsed
    refusal = refuse(foreign)
    source, tools = parsed.request.source, parsed.request.server_tools
    assert source is not None
    spelled = tuple(refusal.violations)
    request = replace(parsed.request, source=replace(source, violations=spelled))
    if tools is not None and tools.hosted is not None and len(foreign) == len(tools.hosted.unserved):
        return replace(parsed, request=replace(request, server_tools=_spell_asks(tools, foreign, spelled)))
    return RejectedRequest(refusal, GEMINI.error, replace(parsed, request=replace(request, server_tools=None)))


def _spell_asks(tools: ServerTools, foreign: Sequence[Violation], spelled: tuple[Violation, ...]) -> ServerTools:
    """Return the searches of a request, of which nothing else is refused, with paths in the caller's spelling."""
    hosted = tools.hosted
    assert hosted is not None
    paths = {one.path: own.path for one, own in zip(foreign, spelled, strict=True)}
    asks = tuple(replace(ask, path=paths[ask.path]) for ask in hosted.asks)
    taken = tuple(replace(one, path=paths[one.path]) for one in hosted.violations)
    return replace(tools, hosted=replace(hosted, asks=asks, violations=taken, unserved=spelled))


def _pass_unread(
    given: dict[str, Any] | None, refusal: ParleyError, limits: RequestLimits, target: GenerateTarget
) -> ParsedRequest | None:
    """Return a request that the gateway cannot read, for Google's servers, which may know more; None if no server can
    be sent it."""
    if given is None:
        return None
    request = make_passed_request(given, refusal, limits, target.model, target.stream, _PATHS)
    if request is None:
        return None
    settings = ReplySettings(target.model, target.stream, "delta" if target.stream else "whole")
    repairs = tuple(list_repairs(given))
    return ParsedRequest(settings, target.reply_format, request, repairs, Options(), repairs)


def _find_counted(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the request whose tokens are counted, and what is before its paths."""
    for name in ("generateContentRequest", to_snake("generateContentRequest")):
        inner = body.get(name)
        if isinstance(inner, dict):
            return f"{name}.", inner
    return "", body


def _parse_request(
    given: dict[str, Any], limits: RequestLimits, target: GenerateTarget
) -> tuple[ParsedRequest, list[Violation]]:
    """Return the request, and what only Google's servers can do of it. `given` is the body in the caller's spelling;
    violations have the documentation's. Raises InvalidInput."""
    body = canonicalize(given)
    _refuse_long_lists(body, limits)
    contents = body.get("contents")
    if isinstance(contents, list):
        conversation = parse_contents(_list_given(given, "contents"), contents, "contents")
    else:
        conversation = _refuse_contents(contents)
    system, system_violations = _parse_system(body.get("systemInstruction"))
    found = recall(_list_given(given, "tools"), parse_tools, lambda: parse_tools(body.get("tools")))
    config, violations = _read_model(body.get("toolConfig"), GeminiToolConfig, "toolConfig")
    chosen = choose_tools(config, found.tools)
    generation, generation_violations = _read_model(
        body.get("generationConfig"), GeminiGenerationConfig, "generationConfig"
    )
    cache, cache_violations = _read_cache(body)
    refused = list(_check_refused(body, generation))
    violations = [
        *conversation.violations,
        *system_violations,
        *found.violations,
        *violations,
        *([] if found.violations else chosen.violations),
        *generation_violations,
        *refused,
        *_check_kwargs(body),
        *cache_violations,
        *find_invalid_fields(given, {}, frozenset(), limits.max_nesting),
    ]
    foreign = {id(one) for one in (*conversation.foreign, *found.foreign, *chosen.violations, *refused)}
    params = _translate_params(body, given, generation, violations)
    if chosen.choice is not None:
        params["tool_choice"] = chosen.choice
    if any(id(one) not in foreign for one in violations):
        raise InvalidInput(violations)
    messages = (*system, *conversation.messages)
    request = ChatRequest(
        model=target.model,
        messages=messages,
        tools=chosen.tools,
        params=params,
        text_joiner=GEMINI.text_joiner,
        policy=GEMINI.policy,
        stream=target.stream,
        server_tools=make_server_tools((), (), function_paths=found.paths, hosted=found.hosted),
        paths=_PATHS,
        source=_make_source(given, body, messages, chosen.tools, params),
    )
    mode: ReplyMode = "delta" if target.stream else "whole"
    thinking = generation.thinkingConfig
    parsed = ParsedRequest(
        ReplySettings(target.model, target.stream, mode, cache=cache),
        target.reply_format,
        request,
        (*conversation.warnings, *found.warnings, *chosen.warnings, *_warn_of_ignored(body, generation)),
        Options(hide_thinking=not (thinking is not None and thinking.includeThoughts)),
    )
    return parsed, violations


def _make_source(
    given: dict[str, Any],
    canonical: dict[str, Any],
    messages: tuple[Message, ...],
    tools: tuple[Tool, ...],
    params: Mapping[str, Any],
) -> Source:
    """Return the client's own body, for servers of this API. A field in both spellings is in it once."""
    body = name_fields(canonical if has_doubles(given, canonical) else given)
    contents, config = body.get("contents"), body.get("generationConfig")
    extensions = {name for name in given if name in _PASSED}
    extensions |= {name for name in config if name in _PASSED and name not in _NAMES} if config else set()
    return Source(
        "gemini",
        body,
        contents if isinstance(contents, list) else canonical["contents"],
        messages,
        tools,
        {name: value for name, value in params.items() if name not in extensions and name != "extra_body"},
        paths=("contents",),
        canonical={name: value for name, value in canonical.items() if name != "model"},
        knows_model=True,
    )


def _list_given(given: dict[str, Any], name: str) -> list[Any]:
    """Return a list as the caller has sent it, of which something may be known; empty if it is none."""
    value = given.get(name)
    return value if isinstance(value, list) else []


def _refuse_long_lists(body: dict[str, Any], limits: RequestLimits) -> None:
    """Raises InvalidInput before anything is looked at that has too many entries."""
    entries = body.get("tools")
    functions = [
        function
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("functionDeclarations"), list)
        for function in entry["functionDeclarations"]
    ]
    violations = find_long_lists({"contents": body.get("contents"), "tools": functions}, limits, "contents")
    if violations:
        raise InvalidInput(violations)


def _refuse_contents(contents: Any) -> ParsedContents:
    form = '[{"role": "user", "parts": [{"text": "…"}]}]'
    text = f"is required: {form}" if contents is None else f"must be a list: {form}"
    return ParsedContents((), [Violation("contents", text)])


def _read_model(value: Any, model: Any, path: str) -> tuple[Any, list[Violation]]:
    """Return (the validated value, violations). Of an invalid value, an empty one is returned."""
    if value is None:
        return model(), []
    try:
        return model.model_validate(value), []
    except ValidationError as error:
        return model(), to_violations(error, value, path, model)


def _read_cache(body: dict[str, Any]) -> tuple[CacheControl | None, list[Violation]]:
    try:
        return _CacheField.model_validate(body).cache, []
    except ValidationError as error:
        return None, to_violations(error, body, schema=_CacheField)


def _parse_system(value: Any) -> tuple[tuple[Message, ...], list[Violation]]:
    """Parse the system prompt: a content, whose role does not matter, or a string, a part or a list of parts."""
    path = "systemInstruction"
    if not value:
        return (), []
    if isinstance(value, str):
        return (Message("system", (Text(value),), path=path),), []
    parts, inner = f"{path}.parts", value
    if isinstance(value, list):
        parts, inner = path, {"parts": value}
    elif isinstance(value, dict) and "parts" not in value and "text" in value:
        parts, inner = "", {"parts": [value]}
    content, violations = _read_model(
        {**inner, "role": None} if isinstance(inner, dict) else inner, GeminiContent, path
    )
    texts = []
    for place, part in enumerate(content.parts or ()):
        name = next((name for name in DATA_FIELDS[1:] if getattr(part, name) is not None), None)
        if name is not None:
            violations.append(Violation(f"{path}.parts[{place}].{name}", "must be a text"))
        elif part.text:
            texts.append(Text(part.text))
    found = [Violation(_find_system_path(one.path, parts), one.message) for one in violations]
    return ((Message("system", tuple(texts), path=path),) if texts else ()), found


def _find_system_path(path: str, parts: str) -> str:
    """Return a path of a system prompt as it was sent. `parts` is where its parts are; empty: it is the only one."""
    rest = path.removeprefix("systemInstruction.parts")
    if rest == path:
        return path
    return f"{parts}{rest}" if parts else f"systemInstruction{rest.removeprefix('[0]')}"


def _check_refused(body: dict[str, Any], generation: GeminiGenerationConfig) -> Iterator[Violation]:
    """Yield what would change the reply, and is not done here."""
    if body.get("cachedContent"):
        yield Violation("cachedContent", _CACHED)
    if (generation.candidateCount or 1) != 1:
        yield Violation("generationConfig.candidateCount", "must be 1: a request gets one reply")
    if generation.responseLogprobs or (generation.logprobs and generation.responseLogprobs is None):
        name = "responseLogprobs" if generation.responseLogprobs else "logprobs"
        text = "is not supported here: POST /v1/chat/completions and POST /v1/responses have log probabilities"
        yield Violation(f"generationConfig.{name}", text)
    thinking = generation.thinkingConfig
    if thinking is not None and thinking.thinkingBudget is not None and _read_level(thinking) is not None:
        yield Violation("generationConfig.thinkingConfig", "must have thinkingLevel or thinkingBudget, not both")
    yield from _check_output(generation)


def _check_kwargs(body: dict[str, Any]) -> Iterator[Violation]:
    kwargs = body.get(_KWARGS)
    if kwargs is not None and not isinstance(kwargs, dict):
        yield Violation(_KWARGS, "must be an object")


def _check_output(generation: GeminiGenerationConfig) -> Iterator[Violation]:
    mime = _read_mime(generation)
    if mime not in ("application/json", "text/plain"):
        yield Violation("generationConfig.responseMimeType", "must be application/json or text/plain")
    elif mime == "text/plain":
        for name in ("responseSchema", "responseJsonSchema"):
            if getattr(generation, name) is not None:
                text = "needs the responseMimeType application/json"
                yield Violation(f"generationConfig.{name}", text)


def _read_mime(generation: GeminiGenerationConfig) -> str:
    return (generation.responseMimeType or "text/plain").strip().lower()


def _read_level(thinking: GeminiThinkingConfig) -> str | None:
    level = (thinking.thinkingLevel or _NO_LEVEL).upper()
    return None if level == _NO_LEVEL else level.lower()


def _translate_params(
    body: dict[str, Any],
    given: dict[str, Any],
    generation: GeminiGenerationConfig,
    violations: list[Violation],
) -> dict[str, Any]:
    """Return the parameters of the request under the gateway's names, and add what is wrong with them."""
    config = next((given[key] for key in ("generationConfig", "generation_config") if given.get(key)), None)
    config = config if isinstance(config, dict) else {}
    params: dict[str, Any] = {}
    for holder, prefix, known in ((given, "", {}), (config, "generationConfig", _NAMES)):
        passed = {key: value for key, value in holder.items() if key in _PASSED and key not in known}
        passed = {key: value for key, value in passed.items() if value is not None}
        try:
            params |= GenerateCfg.model_validate(passed).given_params()
        except ValidationError as error:
            violations += to_violations(error, passed, prefix, GenerateCfg)
    for name, own in _NAMES.items():
        value = getattr(generation, own)
        if value is not None:
            params[name] = value
    if generation.stopSequences:
        params["stop"] = generation.stopSequences
    params |= _translate_thinking(generation.thinkingConfig)
    if _read_mime(generation) == "application/json":
        params["response_format"] = _make_response_format(generation)
    kwargs = body.get(_KWARGS) or config.get(_KWARGS)
    if isinstance(kwargs, dict) and kwargs:
        params["extra_body"] = {_KWARGS: kwargs}
    return params


def _translate_thinking(thinking: GeminiThinkingConfig | None) -> dict[str, Any]:
    if thinking is None:
        return {}
    level, budget = _read_level(thinking), thinking.thinkingBudget
    if level is not None:
        return {"reasoning_effort": level}
    if budget is None or budget < 0:
        return {}
    return {"enable_thinking": True, "thinking_budget": budget} if budget else {"enable_thinking": False}


def _make_response_format(generation: GeminiGenerationConfig) -> dict[str, Any]:
    schema = generation.responseJsonSchema
    if schema is None and generation.responseSchema is not None:
        schema = read_schema(generation.responseSchema)
    if schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": SCHEMA_NAME, "schema": schema}}


def _warn_of_ignored(body: dict[str, Any], generation: GeminiGenerationConfig) -> Iterator[str]:
    config = body.get("generationConfig") or {}
    modalities = [
        word for word in generation.responseModalities or () if word.upper() not in ("TEXT", "MODALITY_UNSPECIFIED")
    ]
    if modalities:
        yield "generationConfig.responseModalities was ignored but for TEXT"
    for name in _UNSERVED_CONFIG:
        if config.get(name):
            yield f"generationConfig.{name} was ignored: only Google's servers know it"
    for key in body:
        if key not in _KNOWN:
            yield f"{json_path([key])} is not known here and was ignored"
    for key in config:
        if key not in _KNOWN_CONFIG and key not in _UNSERVED_CONFIG:
            yield f"{json_path([key], 'generationConfig')} is not known here and was ignored"
    thinking = config.get("thinkingConfig") or {}
    for key in thinking:
        if key not in GeminiThinkingConfig.model_fields:
            yield f"{json_path([key], 'generationConfig.thinkingConfig')} is not known here and was ignored"
