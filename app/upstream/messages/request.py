"""Build the request body for a server of Anthropic's Messages API. Identical requests give identical bytes.

The parameters are those of anthropic 2.14.0, types/message_create_params.py. `extra_body` is merged last; it cannot
replace the fields of `reserved`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from typing_extensions import override

from app.chat.messages import ChatRequest, Tool
from app.errors import InvalidInput
from app.openai_messages.tool_schemas import complete_function
from app.params import PREFERRED_EFFORT, UNSENT, find_max_tokens
from app.profiles import Profile
from app.upstream.api import WriteTool, limit_temperature, should_stream, write_tools
from app.upstream.messages.cache_marks import limit_marks
from app.upstream.messages.conversation import write_conversation
from app.upstream.messages.format_schema import write_format_schema
from app.upstream.messages.own_entries import limit_mark, warn_of_marks
from app.upstream.messages.thinking import Thinking, choose_thinking, obeys_anthropic
from app.upstream.request_options import OptionsWriter, WrittenOptions, find_chosen_function

_OWN_FIELDS = frozenset(("thinking", "system"))
"""Parameters of other servers, too, that the API has."""
_TRANSLATED = frozenset(
    ("max_tokens", "max_completion_tokens", "function_choice", "tool_choice", "parallel_function_calls")
    + ("parallel_tool_calls", "enable_thinking", "thinking_budget", "reasoning_effort", "extra_body", PREFERRED_EFFORT)
    + ("temperature", "top_p", "top_k", "stop", "response_format", "stream_options")
)
_ORDER = (
    *("model", "max_tokens", "system", "messages", "tools", "tool_choice", "thinking", "output_config", "temperature"),
    *("top_p", "top_k", "stop_sequences", "stream"),
)


def build(request: ChatRequest, model: str, profile: Profile) -> tuple[dict[str, Any], list[str]]:
    """Return the body to send, and a warning for each option that is not sent as given.

    Raises InvalidInput with every violation.
    """
    return _BodyBuilder(request, model, profile, write_tool).build()


def build_options(
    request: ChatRequest, model: str, profile: Profile, messages: list[Any], write: WriteTool
) -> WrittenOptions:
    """Return the options of a request, with the tools as `write` writes them. `messages` are those that are sent after
    the beginning."""
    return _BodyBuilder(request, model, profile, write).build_options(messages)


class _BodyBuilder(OptionsWriter):
    reserved = ("model", "messages", "stream")

    def __init__(self, request: ChatRequest, model: str, profile: Profile, write: WriteTool) -> None:
        super().__init__(request, profile, write)
        self._model = model
        self._messages: list[dict[str, Any]] = []
        """Those after the beginning."""

    def build(self) -> tuple[dict[str, Any], list[str]]:
        written = write_conversation(self._request, self._profile)
        self.violations += written.violations
        self.warnings += written.warnings
        before = self._request.before
        beginning: list[Any] = [] if before is None else [msgspec.Raw(before.written)]
        self.body = {"model": self._model, "messages": beginning + written.messages}
        if written.system is not None:
            self.body["system"] = written.system
        self._add_options(written.messages)
        if self.violations:
            raise InvalidInput(self.violations)
        self._limit_marks()
        first = {name: self.body[name] for name in _ORDER if name in self.body}
        return first | self.body, self.warnings

    def build_options(self, messages: list[Any]) -> WrittenOptions:
        self._add_options(messages)
        return WrittenOptions(self.body, self.warnings, self.violations)

    def _add_options(self, messages: list[Any]) -> None:
        self._messages = messages
        self._add_tools()
        self._add_thinking()
        self._add_sampling()
        self._add_format()
        self.body["stream"] = should_stream(self._request, self._profile)
        self._warn_of_other_options()
        self._add_extra_body()

    def _warn_unsent_part(self, name: str, part: str, why: str) -> None:
        self.warnings.append(f"{part} of {self._paths.param(name)} was not sent: {why}")

    # Functions.

    def _add_tools(self) -> None:
        given = self._read_choice()
        if given is None:
            return
        (name, choice), tools = given, self._request.tools
        # Marks may be removed again (`_limit_marks`), and others may be added (`_add_extra_body`).
        is_final = not any(tool.mark for tool in tools) and "tools" not in self._extra_body
        self.body["tools"] = write_tools(tools, self._write, self._request.known if is_final else None)
        written = self._write_choice(name, choice)
        parallel_name, parallel = self._first_given("parallel_function_calls", "parallel_tool_calls")
        if parallel is False and self._profile.parallel_tool_calls:
            if written is None or written["type"] != "none":
                written = {**(written or {"type": "auto"}), "disable_parallel_tool_use": True}
        elif parallel is False:
            self._warn_unsent(parallel_name)
        if written is not None:
            self.body["tool_choice"] = written

    def _write_choice(self, name: str, choice: Any) -> dict[str, Any] | None:
        if choice is None:
            return None
        named = find_chosen_function(choice)
        if named is None and choice in ("auto", "none"):
            return {"type": choice}
        if named is not None and not self._is_offered(name, named):
            return None
        if named is not None and self._profile.named_tool_choice:
            return {"type": "tool", "name": named}
        if self._profile.tool_choice_required is None:
            self._warn_unsent(name, "this model's server cannot be forced to call a function")
            return None
        if named is not None:
            self.body["tools"] = self._write_only(named)
        return {"type": "any"}

    # Thinking, and what it excludes.

    def _add_thinking(self) -> None:
        thinking = choose_thinking(self._params, self._profile, self._find_max_tokens(), self._paths)
        self.warnings += thinking.warnings
        if thinking.field is not None and thinking.thinks and obeys_anthropic(self._profile):
            why = self._find_conflict(thinking)
            if why is not None:
                self.warnings.append(f"thinking was left out of this request: {why}")
                thinking = Thinking(None, thinking.effort, self._find_max_tokens() or self._profile.default_max_tokens)
        self.body["max_tokens"] = thinking.max_tokens
        if thinking.field is not None:
            self.body["thinking"] = thinking.field
        if thinking.variables is not None:
            self.body["chat_template_kwargs"] = thinking.variables
        if thinking.effort is not None:
            self.body["output_config"] = {"effort": thinking.effort}
        if thinking.thinks and self._profile.formats_while_thinking == "thinking_off" and self._wants_json():
            self.body["thinking"] = {"type": "disabled"}
            why = "this model's server does not enforce it while the model thinks"
            self.warnings.append(f"thinking was switched off for {self._paths.param('response_format')}: {why}")

    def _wants_json(self) -> bool:
        given = self._params.get("response_format")
        return isinstance(given, dict) and given.get("type") == "json_schema"

    def _find_conflict(self, thinking: Thinking) -> str | None:
        """Return why the server would refuse thinking in this request; None if it would not."""
        choice = self.body.get("tool_choice")
        if choice is not None and choice["type"] in ("any", "tool"):
            return "this model's server cannot be forced to call a function while the model thinks"
        if thinking.field is not None and thinking.field["type"] == "enabled" and self._lacks_thought():
            return "the turn with the last tool calls has no signed reasoning, which this model's server wants back"
        return None

    def _lacks_thought(self) -> bool:
        """Whether the conversation ends with results of calls whose turn does not begin with reasoning."""
        messages = self._messages
        if len(messages) < 2 or messages[-1]["role"] != "user" or _find_first_type(messages[-1]) != "tool_result":
            return False
        return _find_first_type(messages[-2]) not in ("thinking", "redacted_thinking")

    def _find_max_tokens(self) -> int | None:
        """Return the caller's limit of output tokens, no larger than the model takes; None if there is none."""
        most, largest = find_max_tokens({}, self._params), self._profile.max_output_tokens
        smallest = self._profile.min_output_tokens
        if most is not None and smallest is not None and most < smallest:
            name = self._first_given("max_tokens", "max_completion_tokens")[0]
            text = f"{self._paths.param(name)} was raised from {most} to {smallest}, the least that this server takes"
            if text not in self.warnings:
                self.warnings.append(text)
            return smallest
        if most is not None and largest is not None and most > largest:
            name = self._first_given("max_tokens", "max_completion_tokens")[0]
            text = (
                f"{self._paths.param(name)} was lowered from {most} to {largest}, the maximum of this model's profile"
            )
            if text not in self.warnings:
                self.warnings.append(text)
            return largest
        return most

    # Other options.

    def _add_sampling(self) -> None:
        thinking = self.body.get("thinking")
        thinks = thinking is not None and thinking["type"] != "disabled" and obeys_anthropic(self._profile)
        temperature = self._params.get("temperature")
        if temperature is not None and thinks and temperature != 1:
            self._warn_unsent("temperature", "the model thinks, and its server then takes no other than 1")
        elif temperature is not None and "temperature" in self._profile.lacks:
            self._warn_unsent("temperature")
        elif temperature is not None:
            path = self._paths.param("temperature")
            temperature, warnings = limit_temperature(temperature, self._profile, path)
            self.warnings += warnings
            self.body[self._profile.renamed.get("temperature", "temperature")] = temperature
        for name in ("top_p", "top_k"):
            value = self._params.get(name)
            if value is None:
                continue
            if name in self._profile.lacks:
                self._warn_unsent(name)
            elif name == "top_p" and self._has_temperature() and self._profile.sampling_excludes_top_p:
                self._warn_unsent(name, "the model's server takes none beside a temperature")
            elif name == "top_k" and thinks:
                self._warn_unsent(name, "the model thinks, and its server then takes none")
            else:
                self.body[self._profile.renamed.get(name, name)] = value
        self._add_stop_words()

    def _has_temperature(self) -> bool:
        return self._profile.renamed.get("temperature", "temperature") in self.body

    def _add_stop_words(self) -> None:
        """The API refuses blank stop words. The gateway itself stops at them."""
        stop = self._params.get("stop")
        words = [stop] if isinstance(stop, str) else list(stop or ())
        words = [word for word in words if isinstance(word, str) and word.strip()]
        if words and "stop" not in self._profile.lacks:
            self.body["stop_sequences"] = words

    def _add_format(self) -> None:
        given = self._params.get("response_format")
        if not isinstance(given, dict):
            return
        type_ = given.get("type")
        if type_ == "json_schema":
            holder = given.get("json_schema")
            schema = holder.get("schema") if isinstance(holder, dict) else None
            schema = schema if schema is not None else {"type": "object"}
            lost: set[str] = set()
            if self._profile.format_schema == "anthropic":
                schema = write_format_schema(schema, lost)
            if lost:
                why = "its server takes no such keywords, so they stand in descriptions"
                self._warn_unsent_part("response_format", ", ".join(sorted(lost)), why)
            written = {"type": "json_schema", "schema": schema}
            self.body["output_config"] = {**self.body.get("output_config", {}), "format": written}
        elif type_ == "json_object":
            self._warn_unsent("response_format", "this model's server knows json_schema only")

    def _warn_of_other_options(self) -> None:
        for name in sorted(self._params):
            value = self._params[name]
            if name not in _TRANSLATED and name not in UNSENT and value is not None and value != []:
                self._warn_unsent(name)

    @override
    def _lacks(self, name: str) -> bool:
        return super()._lacks(name) and name not in _OWN_FIELDS and not self._has_variables(name)

    def _has_variables(self, name: str) -> bool:
        """Whether this is the field of the chat template's variables, and the server has it."""
        return name == "chat_template_kwargs" and self._profile.thinking_switch == name

    def _limit_marks(self) -> None:
        """Leave only as many cache marks as the API takes, with what the server knows of them."""
        marked, warnings = limit_marks(self.body, self._messages)
        if self._profile.takes != "all":
            lost: set[str] = set()
            for holder in (self.body, *marked):
                holder.update(limit_mark(holder, lost))
            self.warnings += warn_of_marks(lost)
        self.warnings += warnings


def _find_first_type(message: Mapping[str, Any]) -> Any:
    """Return the type of the first block of a message; None if it has no blocks."""
    content = message["content"]
    return content[0].get("type") if isinstance(content, list) and content else None


def write_tool(tool: Tool) -> dict[str, Any]:
    function = complete_function(tool.schema, tool.encoded)
    given = tool.schema.get("parameters")
    schema = function["parameters"]
    if not isinstance(given, dict) or "type" not in given:
        schema = {"type": schema["type"], **schema}
    written: dict[str, Any] = {"name": tool.name}
    if tool.schema.get("description") is not None:
        written["description"] = tool.schema["description"]
    written["input_schema"] = schema
    if tool.schema.get("strict") is not None:
        written["strict"] = tool.schema["strict"]
    return written | {"cache_control": dict(tool.mark.value)} if tool.mark else written
