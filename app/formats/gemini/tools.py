"""The functions that a request in Gemini's format offers, and its choice of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.chat.hosted_tools import HostedAsk, HostedAsks
from app.chat.messages import Tool
from app.errors import Violation
from app.formats.gemini.json_schema import read_schema
from app.formats.gemini.plain import PlainFunction
from app.formats.hosted_asks import GEMINI_KINDS, read_gemini_tool
from app.other_apis import NO_PARAMETERS
from app.validation.violations import json_path, to_violations

_STRICT = ConfigDict(extra="allow", strict=True)
_HOSTED = frozenset(
    {
        *("googleSearch", "googleSearchRetrieval", "urlContext", "codeExecution", "googleMaps", "fileSearch"),
        *("computerUse", "mcpServers", "retrieval", "enterpriseWebSearch", "parallelAiSearch", "exaAiSearch"),
    }
)
"""Tools that Google's servers run. Clients send them only if their user wants them."""
_BY_GOOGLE = "is run by Google's servers: offer a function of your own instead, in functionDeclarations"
_MODES: Mapping[str, str] = {
    "MODE_UNSPECIFIED": "auto",
    "AUTO": "auto",
    "ANY": "required",
    "NONE": "none",
    "VALIDATED": "auto",
}
_MODE_PATH = "toolConfig.functionCallingConfig.mode"
_NAMES_PATH = "toolConfig.functionCallingConfig.allowedFunctionNames"
_FORM = '{"name": "…", "description": "…", "parametersJsonSchema": {…}}'


class GeminiFunction(BaseModel):
    """A function that the model may call."""

    model_config = _STRICT

    name: str = Field(min_length=1, pattern=r"\S")
    description: str | None = None
    parameters: dict[str, Any] | None = None
    """A schema of OpenAPI 3.0."""
    parametersJsonSchema: dict[str, Any] | None = None
    response: Any = None
    responseJsonSchema: Any = None
    behavior: Any = None


class GeminiFunctionCalling(BaseModel):
    model_config = _STRICT

    mode: str | None = None
    allowedFunctionNames: list[str] | None = None
    streamFunctionCallArguments: Any = None


class GeminiToolConfig(BaseModel):
    model_config = _STRICT

    functionCallingConfig: GeminiFunctionCalling | None = None
    retrievalConfig: Any = None
    includeServerSideToolInvocations: Any = None


class FoundTools(Struct, frozen=True):
    tools: tuple[Tool, ...] = ()
    paths: tuple[str, ...] = ()
    violations: Sequence[Violation] = ()
    foreign: Sequence[Violation] = ()
    """Those of `violations` that are about tools of Google's servers."""
    warnings: Sequence[str] = ()
    hosted: HostedAsks | None = None
    """Those of them that search or read pages, which the gateway may run itself."""


def parse_tools(entries: Any) -> FoundTools:
    """Parse the functions of all entries of `tools`, in the documentation's spelling."""
    if entries is None:
        return FoundTools()
    if not isinstance(entries, list):
        return FoundTools(violations=[Violation("tools", 'must be a list: [{"functionDeclarations": […]}]')])
    reader = _ToolReader()
    for place, entry in enumerate(entries):
        reader.add_entry(entry, f"tools[{place}]")
    return reader.finish()


class _ToolReader:
    def __init__(self) -> None:
        self._tools: list[Tool] = []
        self._names: set[str] = set()
        self._paths: list[str] = []
        self._violations: list[Violation] = []
        self._foreign: list[Violation] = []
        self._asks: list[HostedAsk] = []
        self._unserved: list[Violation] = []
        self._warnings: list[str] = []

    def add_entry(self, entry: Any, path: str) -> None:
        if not isinstance(entry, dict):
            self._refuse(path, f'must be an object: {{"functionDeclarations": [{_FORM}]}}')
            return
        for name, value in entry.items():
            place = json_path([name], path)
            if name in _HOSTED:
                self._refuse(place, _BY_GOOGLE)
                self._foreign.append(self._violations[-1])
                if name in GEMINI_KINDS:
                    self._asks.append(read_gemini_tool(name, value, place))
                    self._unserved.append(self._violations[-1])
            elif name != "functionDeclarations":
                self._warnings.append(f"{place} is not known here and was ignored")
            elif not isinstance(value, list):
                self._refuse(place, f"must be a list of functions: [{_FORM}]")
            else:
                for at, function in enumerate(value):
                    self._add_function(function, f"{place}[{at}]")

    def _add_function(self, value: Any, path: str) -> None:
        try:
            function = _read_plain(value) or GeminiFunction.model_validate(value)
        except ValidationError as error:
            self._violations += to_violations(error, value, path, GeminiFunction)
            return
        if function.name in self._names:
            self._refuse(f"{path}.name", f"must be unique: there are two functions named {function.name!r}")
            return
        unknown = (key for key, inner in (function.model_extra or {}).items() if inner not in ([], {}))
        self._warnings += (f"{json_path([key], path)} is not a field of a function and was ignored" for key in unknown)
        self._names.add(function.name)
        self._tools.append(_make_tool(function))
        self._paths.append(path)

    def _refuse(self, path: str, message: str) -> None:
        self._violations.append(Violation(path, message))

    def finish(self) -> FoundTools:
        tools, paths = tuple(self._tools), tuple(self._paths)
        return FoundTools(tools, paths, self._violations, self._foreign, self._warnings, self._make_hosted())

    def _make_hosted(self) -> HostedAsks | None:
        """Return the searches, each kind once."""
        asks = {ask.kind: ask for ask in reversed(self._asks)}
        taken = [
            Violation(ask.path, f"takes the name {ask.name!r}, which a function of this request has")
            for ask in asks.values()
            if ask.name in self._names
        ]
        if not asks:
            return None
        return HostedAsks(tuple(asks), tuple(asks.values()), violations=tuple(taken), unserved=tuple(self._unserved))


def _read_plain(value: Any) -> PlainFunction | None:
    """Return a function of the usual form; None for another one, and for one that is not valid."""
    try:
        return msgspec.convert(value, PlainFunction)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None


def _make_tool(function: GeminiFunction | PlainFunction) -> Tool:
    schema: dict[str, Any] = {"name": function.name}
    if function.description is not None:
        schema["description"] = function.description
    if function.parametersJsonSchema is not None:
        schema["parameters"] = function.parametersJsonSchema
    else:
        schema["parameters"] = read_schema(function.parameters) if function.parameters else NO_PARAMETERS
    return Tool(function.name, schema)


class ChosenTools(Struct, frozen=True):
    tools: tuple[Tool, ...]
    """Those that are offered."""
    choice: Any = None
    """`tool_choice`; None if there is nothing to choose."""
    violations: Sequence[Violation] = ()
    warnings: Sequence[str] = ()


def choose_tools(config: GeminiToolConfig | None, tools: tuple[Tool, ...]) -> ChosenTools:
    calling = None if config is None else config.functionCallingConfig
    if calling is None:
        return ChosenTools(tools)
    given = (calling.mode or "AUTO").upper()
    mode, names = _MODES.get(given), calling.allowedFunctionNames or []
    if mode is None:
        return ChosenTools(tools, violations=[Violation(_MODE_PATH, "must be AUTO, ANY, NONE or VALIDATED")])
    violations = list(_check(mode, names, tools))
    if violations or not tools:
        return ChosenTools(tools, violations=violations)
    if not names or given not in ("ANY", "VALIDATED"):
        ignored = [f"{_NAMES_PATH} was ignored: it is for the modes ANY and VALIDATED"] if names else []
        return ChosenTools(tools, mode, warnings=ignored)
    if given == "ANY" and len(set(names)) == 1:
        return ChosenTools(tools, {"type": "function", "function": {"name": names[0]}})
    return ChosenTools(tuple(tool for tool in tools if tool.name in names), mode)


def _check(mode: str, names: Sequence[str], tools: Sequence[Tool]) -> Iterator[Violation]:
    if mode == "required" and not tools:
        yield Violation(_MODE_PATH, "needs functions to choose from, but the request has none")
    known = {tool.name for tool in tools}
    for place, name in enumerate(names if tools else ()):
        if name not in known:
            yield Violation(f"{_NAMES_PATH}[{place}]", f"names no function of this request: {name!r}")
