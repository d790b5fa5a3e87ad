"""Build the request body for a server of the Gemini API. Identical requests give identical bytes.

The fields are those of ai.google.dev/api/generate-content, in camelCase. `extra_body` is merged last; it cannot replace
the fields of `_RESERVED`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from app.chat.messages import ChatRequest, Tool
from app.errors import InvalidInput, Violation
from app.openai_messages.tool_schemas import complete_function
from app.params import PREFERRED_EFFORT, SERVER_PARAMS, UNSENT, find_max_tokens
from app.profiles import Profile
from app.upstream.api import WriteTool, merge_extra, write_tools
from app.upstream.gemini.conversation import write_conversation
from app.upstream.gemini.schemas import drop_identity, write_openapi
from app.upstream.gemini.thinking import choose_thinking
from app.validation.violations import json_path

MAX_STOP_WORDS = 5
"""How many the API takes (ai.google.dev/api/generate-content, GenerationConfig). The gateway itself stops at all."""
_RESERVED = ("contents", "model", "stream")
_SAMPLING = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
_TRANSLATED = frozenset(
    ("max_tokens", "max_completion_tokens", "function_choice", "tool_choice", "parallel_function_calls")
    + ("parallel_tool_calls", "enable_thinking", "thinking_budget", "reasoning_effort", "extra_body", PREFERRED_EFFORT)
    + ("stop", "response_format", "stream_options", *_SAMPLING)
)
_NO_PARAMETER = "this model's server has no such parameter"
_OPTIONS_ORDER = (
    *("temperature", "topP", "topK", "maxOutputTokens", "stopSequences", "seed", "presencePenalty"),
    *("frequencyPenalty", "responseMimeType", "responseJsonSchema", "responseSchema", "thinkingConfig"),
)
_ALTERNATIVES = ("$ref", "anyOf", "oneOf", "allOf", "patternProperties")


def build(request: ChatRequest, model: str, profile: Profile) -> tuple[dict[str, Any], list[str]]:
    """Return the body to send, and a warning for each option that is not sent as given. The model is in the path.

    Raises InvalidInput with every violation.
    """
    write = write_tool if profile.tool_schema == "json" else write_openapi_tool
    return _BodyBuilder(request, profile, write).build()


class WrittenOptions(msgspec.Struct, frozen=True):
    """What a request asks for, without its conversation."""

    body: dict[str, Any]
    warnings: list[str]
    violations: list[Violation]


def build_options(request: ChatRequest, profile: Profile, write: WriteTool) -> WrittenOptions:
    """Return the options of a request; `write` writes its tools."""
    return _BodyBuilder(request, profile, write).build_options()


class _BodyBuilder:
    def __init__(self, request: ChatRequest, profile: Profile, write: WriteTool) -> None:
        self._request = request
        self._profile = profile
        self._write = write
        self._params = request.params
        self._paths = request.paths
        self._warnings: list[str] = []
        self._violations: list[Violation] = []
        self._body: dict[str, Any] = {}
        self._options: dict[str, Any] = {}

    def build(self) -> tuple[dict[str, Any], list[str]]:
        written = write_conversation(self._request, self._profile)
        self._violations += written.violations
        self._warnings += written.warnings
        before = self._request.before
        beginning: list[Any] = [] if before is None else [msgspec.Raw(before.written)]
        self._body = {"contents": beginning + written.contents}
        if written.system is not None:
            self._body["systemInstruction"] = {"parts": [{"text": written.system}]}
        self._add_options()
        if self._violations:
            raise InvalidInput(self._violations)
        return self._body, self._warnings

    def build_options(self) -> WrittenOptions:
        self._add_options()
        return WrittenOptions(self._body, self._warnings, self._violations)

    def _add_options(self) -> None:
        self._add_tools()
        self._add_sampling()
        self._add_format()
        self._add_thinking()
        self._warn_of_other_options()
        options = {name: self._options[name] for name in _OPTIONS_ORDER if name in self._options}
        if options:
            self._body["generationConfig"] = options
        self._add_extra_body()

    def _warn_unsent(self, name: str, why: str = _NO_PARAMETER) -> None:
        self._warnings.append(f"{self._paths.param(name)} was not sent: {why}")

    def _refuse(self, path: str, why: str) -> None:
        self._violations.append(Violation(path, why))

    def _first_given(self, *names: str) -> tuple[str, Any]:
        found = ((name, value) for name in names if (value := self._params.get(name)) is not None)
        return next(found, (names[0], None))

    # Functions.

    def _add_tools(self) -> None:
        name, choice = self._first_given("function_choice", "tool_choice")
        tools = self._request.tools
        if not tools:
            if choice not in (None, "auto", "none"):
                self._refuse(self._paths.param(name), "needs functions to choose from, but the request has none")
            return
        if choice == "none" and not self._profile.tool_choice_none:
            return
        self._body["tools"] = [{"functionDeclarations": write_tools(tools, self._write, self._request.known)}]
        config = self._write_choice(name, choice)
        if config is not None:
            self._body["toolConfig"] = {"functionCallingConfig": config}
        parallel_name, parallel = self._first_given("parallel_function_calls", "parallel_tool_calls")
        if parallel is False:
            self._warn_unsent(parallel_name)

    def _write_choice(self, name: str, choice: Any) -> dict[str, Any] | None:
        if choice in (None, "auto"):
            return None
        if choice == "none":
            return {"mode": "NONE"}
        named = _find_chosen_name(choice)
        names = [tool.name for tool in self._request.tools]
        if named is not None and named not in names:
            text = f"must be auto, none, required or one of the functions ({', '.join(sorted(names))}), not {named!r}"
            self._refuse(self._paths.param(name), text)
            return None
        if self._profile.tool_choice_required is None:
            self._warn_unsent(name, "this model's server cannot be forced to call a function")
            return None
        if named is None:
            return {"mode": "ANY"}
        if self._profile.named_tool_choice:
            return {"mode": "ANY", "allowedFunctionNames": [named]}
        # Without another function to choose, the model calls this one.
        only = [self._write(tool) for tool in self._request.tools if tool.name == named]
        self._body["tools"] = [{"functionDeclarations": only}]
        return {"mode": "ANY"}

    # Options.

    def _add_sampling(self) -> None:
        for name, sent in _SAMPLING.items():
            value = self._params.get(name)
            if value is None:
                continue
            if name in self._profile.lacks:
                self._warn_unsent(name)
            else:
                self._options[self._profile.renamed.get(name, sent)] = value
        most = self._find_max_tokens()
        if most is not None:
            self._options["maxOutputTokens"] = most
        stop = self._params.get("stop")
        words = [word for word in ([stop] if isinstance(stop, str) else stop or ()) if word]
        if words and "stop" not in self._profile.lacks:
            self._options["stopSequences"] = words[:MAX_STOP_WORDS]

    def _find_max_tokens(self) -> int | None:
        """Return the caller's limit of output tokens, within what the model takes; None if there is none."""
        most = find_max_tokens({}, self._params)
        largest, smallest = self._profile.max_output_tokens, self._profile.min_output_tokens
        path = self._paths.param(self._first_given("max_tokens", "max_completion_tokens")[0])
        if most is not None and largest is not None and most > largest:
            text = f"{path} was lowered from {most} to {largest}, the maximum of this model's profile"
            self._warnings.append(text)
            return largest
        if most is not None and smallest is not None and most < smallest:
            self._warnings.append(f"{path} was raised from {most} to {smallest}, the least that this server takes")
            return smallest
        return most

    def _add_format(self) -> None:
        given = self._params.get("response_format")
        type_ = given.get("type") if isinstance(given, dict) else None
        if type_ not in ("json_object", "json_schema"):
            return
        self._options["responseMimeType"] = "application/json"
        holder = given.get("json_schema") if type_ == "json_schema" else None  # type: ignore[union-attr]  # a dict here
        schema = holder.get("schema") if isinstance(holder, dict) else None
        if isinstance(schema, dict) and self._profile.tool_schema == "openapi":
            self._options["responseSchema"] = write_openapi(schema)
        elif isinstance(schema, dict):
            self._options["responseJsonSchema"] = drop_identity(schema)

    def _add_thinking(self) -> None:
        thinking = choose_thinking(self._params, self._profile, self._paths)
        is_asked = thinking.config is not None and "includeThoughts" in thinking.config
        if is_asked and self._profile.formats_while_thinking == "thinking_off" and "responseMimeType" in self._options:
            thinking = choose_thinking({"enable_thinking": False}, self._profile, self._paths)
            why = "this model's server does not enforce it while the model thinks"
            self._warnings.append(f"thinking was switched off for {self._paths.param('response_format')}: {why}")
        self._warnings += thinking.warnings
        if thinking.config is not None:
            self._options["thinkingConfig"] = thinking.config

    def _warn_of_other_options(self) -> None:
        for name in sorted(self._params):
            value = self._params[name]
            says_nothing = value is None or value == [] or (name, value) == ("n", 1)
            if name not in _TRANSLATED and name not in UNSENT and not says_nothing:
                self._warn_unsent(name)

    def _add_extra_body(self) -> None:
        extra: Mapping[str, Any] = self._params.get("extra_body") or {}
        for name in sorted(extra):
            path, value = json_path([name], self._paths.extra_body), extra[name]
            if name in _RESERVED:
                self._refuse(path, "is set by the gateway: leave it out of extra_body")
            elif self._profile.extra_fields is not None and name not in self._profile.extra_fields:
                self._refuse(path, "is not a field that this model's server accepts")
            elif name in SERVER_PARAMS:
                if value is not None and (name, value) != ("store", False):  # nothing is stored
                    self._warnings.append(f"{path} was not sent: {_NO_PARAMETER}")
            else:
                self._body[name] = merge_extra(name, self._body.get(name), value)


def write_tool(tool: Tool) -> dict[str, Any]:
    schema = _find_schema(tool)
    return _write_head(tool) | ({} if schema is None else {"parametersJsonSchema": drop_identity(schema)})


def write_openapi_tool(tool: Tool) -> dict[str, Any]:
    schema = _find_schema(tool)
    return _write_head(tool) | ({} if schema is None else {"parameters": write_openapi(schema)})


def _write_head(tool: Tool) -> dict[str, Any]:
    description = tool.schema.get("description")
    return {"name": tool.name} | ({} if description is None else {"description": description})


def _find_schema(tool: Tool) -> dict[str, Any] | None:
    """Return the schema of a function's parameters; None if it has none: the API refuses an object without
    properties."""
    schema: dict[str, Any] = complete_function(tool.schema, tool.encoded)["parameters"]
    return schema if schema.get("properties") or any(name in schema for name in _ALTERNATIVES) else None


def _find_chosen_name(choice: Any) -> str | None:
    """Return the function that must be called; None for `required`."""
    if isinstance(choice, dict):
        function = choice.get("function")
        return str(function.get("name")) if isinstance(function, dict) else ""
    return None if choice == "required" else str(choice)
