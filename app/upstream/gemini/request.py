"""Build the request body for a server of the Gemini API. Identical requests give identical bytes.

The fields are those of ai.google.dev/api/generate-content, in camelCase. `extra_body` is merged last; it cannot replace
the fields of `reserved`.
"""

from typing import Any

import msgspec

from app.chat.messages import ChatRequest, Tool
from app.errors import InvalidInput
from app.openai_messages.tool_schemas import complete_function
from app.params import PREFERRED_EFFORT, UNSENT, find_max_tokens
from app.profiles import Profile
from app.upstream.api import WriteTool, limit_temperature, write_tools
from app.upstream.gemini.conversation import write_conversation
from app.upstream.gemini.schemas import drop_identity, write_openapi
from app.upstream.gemini.thinking import choose_thinking
from app.upstream.request_options import OptionsWriter, WrittenOptions, find_chosen_function

MAX_STOP_WORDS = 5
"""How many the API takes (ai.google.dev/api/generate-content, GenerationConfig). The gateway itself stops at all."""
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


def build_options(request: ChatRequest, profile: Profile, write: WriteTool) -> WrittenOptions:
    """Return the options of a request; `write` writes its tools."""
    return _BodyBuilder(request, profile, write).build_options()


class _BodyBuilder(OptionsWriter):
    reserved = ("contents", "model", "stream")

    def __init__(self, request: ChatRequest, profile: Profile, write: WriteTool) -> None:
        super().__init__(request, profile, write)
        self._options: dict[str, Any] = {}

    def build(self) -> tuple[dict[str, Any], list[str]]:
        written = write_conversation(self._request, self._profile)
        self.violations += written.violations
        self.warnings += written.warnings
        before = self._request.before
        beginning: list[Any] = [] if before is None else [msgspec.Raw(before.written)]
        self.body = {"contents": beginning + written.contents}
        if written.system is not None:
            self.body["systemInstruction"] = {"parts": [{"text": written.system}]}
        self._add_options()
        if self.violations:
            raise InvalidInput(self.violations)
        return self.body, self.warnings

    def build_options(self) -> WrittenOptions:
        self._add_options()
        return WrittenOptions(self.body, self.warnings, self.violations)

    def _add_options(self) -> None:
        self._add_tools()
        self._add_sampling()
        self._add_format()
        self._add_thinking()
        self._warn_of_other_options()
        options = {name: self._options[name] for name in _OPTIONS_ORDER if name in self._options}
        if options:
            self.body["generationConfig"] = options
        self._add_extra_body()

    # Functions.

    def _add_tools(self) -> None:
        given = self._read_choice()
        if given is None:
            return
        (name, choice), tools = given, self._request.tools
        self.body["tools"] = [{"functionDeclarations": write_tools(tools, self._write, self._request.known)}]
        config = self._write_choice(name, choice)
        if config is not None:
            self.body["toolConfig"] = {"functionCallingConfig": config}
        parallel_name, parallel = self._first_given("parallel_function_calls", "parallel_tool_calls")
        if parallel is False:
            self._warn_unsent(parallel_name)

    def _write_choice(self, name: str, choice: Any) -> dict[str, Any] | None:
        if choice in (None, "auto"):
            return None
        if choice == "none":
            return {"mode": "NONE"}
        named = find_chosen_function(choice)
        if named is not None and not self._is_offered(name, named):
            return None
        if self._profile.tool_choice_required is None:
            self._warn_unsent(name, "this model's server cannot be forced to call a function")
            return None
        if named is None:
            return {"mode": "ANY"}
        if self._profile.named_tool_choice:
            return {"mode": "ANY", "allowedFunctionNames": [named]}
        self.body["tools"] = [{"functionDeclarations": self._write_only(named)}]
        return {"mode": "ANY"}

    # Options.

    def _add_sampling(self) -> None:
        for name, sent in _SAMPLING.items():
            value = self._params.get(name)
            if value is None:
                continue
            if name in self._profile.lacks:
                self._warn_unsent(name)
                continue
            if name == "temperature":
                value, warnings = limit_temperature(value, self._profile, self._paths.param(name))
                self.warnings += warnings
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
            self.warnings.append(text)
            return largest
        if most is not None and smallest is not None and most < smallest:
            self.warnings.append(f"{path} was raised from {most} to {smallest}, the least that this server takes")
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
            self.warnings.append(f"thinking was switched off for {self._paths.param('response_format')}: {why}")
        self.warnings += thinking.warnings
        if thinking.config is not None:
            self._options["thinkingConfig"] = thinking.config

    def _warn_of_other_options(self) -> None:
        for name in sorted(self._params):
            value = self._params[name]
            says_nothing = value is None or value == [] or (name, value) == ("n", 1)
            if name not in _TRANSLATED and name not in UNSENT and not says_nothing:
                self._warn_unsent(name)


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
