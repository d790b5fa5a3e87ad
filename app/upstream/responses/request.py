"""Build the body of a request to a Responses server. Identical requests give identical bytes: the keys have a fixed
order.

Nothing is stored at the server (`store: false`), and the whole conversation is sent each time: reasoning comes back
with it. Stop words are not sent, because the API has none: the gateway ends the reply at them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from app.chat.messages import ChatRequest, Tool
from app.errors import InvalidInput, Violation
from app.openai_messages.tool_schemas import complete_function
from app.params import PREFERRED_EFFORT, UNSENT, find_max_tokens
from app.profiles import Profile
from app.profiles.thinking import is_thinking
from app.upstream.api import WriteTool, limit_temperature, merge_extra, should_stream, write_tools
from app.upstream.chat_completions.thinking import choose_effort
from app.upstream.request_options import NO_PARAMETER, OptionsWriter, find_chosen_function
from app.upstream.responses.conversation import write_conversation
from app.upstream.responses.items import ENCRYPTED, LOGPROBS
from app.validation.violations import json_path

_ORDER = (
    *("model", "instructions", "input", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text"),
    *("max_output_tokens", "temperature", "top_p"),
)
"""The first keys of a body."""
_LAST = ("include", "store", "stream", "stream_options")
_RESERVED = {
    "model": "is set by the gateway",
    "input": "is the conversation",
    "messages": "is the conversation",
    "instructions": "is the system message",
    "stream": "is set by the gateway",
    "background": "is not sent: the gateway runs replies in the background itself",
    "conversation": "is not sent: the whole conversation is",
    "previous_response_id": "is not sent: the whole conversation is",
}
"""Fields that `extra_body` cannot set, and why."""
_OF_CHAT_COMPLETIONS = frozenset(("audio", "modalities", "prediction", "web_search_options"))
"""Parameters that only the other API of OpenAI has: this one refuses a request with any of them."""
_TRANSLATED = frozenset(
    {
        *(
            "max_tokens",
            "max_completion_tokens",
            "stop",
            "response_format",
            "stream_options",
            "logprobs",
            "top_logprobs",
        ),
        *("function_choice", "tool_choice", "parallel_function_calls", "parallel_tool_calls", "extra_body"),
        *("enable_thinking", "thinking_budget", "reasoning_effort", PREFERRED_EFFORT),
    }
)


def build(request: ChatRequest, model: str, profile: Profile) -> tuple[dict[str, Any], list[str]]:
    """Return the body to send, and a warning for each option that is not sent as given.

    `model` is the server's own name of the model. Raises InvalidInput with every violation: messages and options
    that this server cannot be sent.
    """
    conversation = write_conversation(request, profile)
    options = RequestOptions(request, profile, write_tool)
    options.write()
    if violations := conversation.violations + options.violations:
        raise InvalidInput(violations)
    fields = options.body
    items: list[Any] = [] if request.before is None else [msgspec.Raw(request.before.written)]
    fields["model"], fields["input"] = model, items + conversation.items
    if conversation.instructions is not None:
        fields["instructions"] = conversation.instructions
    if include := options.list_included():
        fields["include"] = include
    fields["store"], fields["stream"] = False, should_stream(request, profile)
    if fields["stream"] and profile.obfuscation_option:
        fields["stream_options"] = {"include_obfuscation": False}
    fields |= {name: request.caller_fields[name] for name in profile.caller_fields if name in request.caller_fields}
    options.add_extra_body()
    if options.violations:
        raise InvalidInput(options.violations)
    return _sort(options.body), conversation.warnings + options.warnings


def _sort(fields: Mapping[str, Any]) -> dict[str, Any]:
    known = {*_ORDER, *_LAST}
    names = (*_ORDER, *sorted(fields.keys() - known), *_LAST)
    return {name: fields[name] for name in names if name in fields}


class RequestOptions(OptionsWriter):
    def __init__(self, request: ChatRequest, profile: Profile, write: WriteTool) -> None:
        super().__init__(request, profile, write)
        self._summary = request.reasoning_summary or profile.reasoning_summary

    def write(self) -> None:
        self._add_tools()
        if not self._params:
            self._add_reasoning()
            return
        for name in sorted(self._params):
            value = self._params[name]
            if name in _TRANSLATED or name in UNSENT or value is None or value == []:
                continue
            if name in self._profile.lacks:
                self._warn_unsent(name)
                continue
            if name == "temperature":
                value, warnings = limit_temperature(value, self._profile, self._paths.param(name))
                self.warnings += warnings
            self.body[self._profile.renamed.get(name, name)] = value
        self._add_max_tokens()
        self._add_logprobs()
        self._add_reasoning()
        self._add_text()
        self._resolve_thinking()

    def list_included(self) -> list[str]:
        """Return what the server is to add to its reply."""
        included = [ENCRYPTED] if self._profile.encrypted_reasoning else []
        return [*included, LOGPROBS] if "top_logprobs" in self.body else included

    def _add_logprobs(self) -> None:
        if not self._params.get("logprobs"):
            return
        if "logprobs" in self._profile.lacks:
            self._warn_unsent("logprobs")
        else:
            self.body["top_logprobs"] = self._params.get("top_logprobs") or 0

    def _add_max_tokens(self) -> None:
        most = find_max_tokens({}, self._params)
        if most is None:
            return
        path = self._paths.param(self._first_given("max_tokens", "max_completion_tokens")[0])
        largest, smallest = self._profile.max_output_tokens, self._profile.min_output_tokens
        if largest is not None and most > largest:
            self.warnings.append(f"{path} was lowered from {most} to {largest}, the maximum of this model's profile")
            most = largest
        if smallest is not None and most < smallest:
            self.warnings.append(f"{path} was raised from {most} to {smallest}, the least that this server takes")
            most = smallest
        self.body["max_output_tokens"] = most

    # Tools.

    def _add_tools(self) -> None:
        given = self._read_choice()
        if given is None:
            return
        name, choice = given
        # Others may be added: `add_extra_body`.
        is_final = "tools" not in self._extra_body
        self.body["tools"] = write_tools(self._request.tools, self._write, self._request.known if is_final else None)
        if choice is not None:
            self._add_choice(name, choice)
        name, parallel = self._first_given("parallel_function_calls", "parallel_tool_calls")
        if parallel is not None and self._profile.parallel_tool_calls:
            self.body["parallel_tool_calls"] = parallel
        elif parallel is False:
            self._warn_unsent(name)

    def _add_choice(self, param: str, choice: Any) -> None:
        named = find_chosen_function(choice)
        if named is None:
            self._set_choice(param, choice)
        elif not self._is_offered(param, named):
            return
        elif self._profile.named_tool_choice:
            self.body["tool_choice"] = {"type": "function", "name": named}
        else:
            # With `required` and no other function to choose, the server calls this one.
            if self._profile.tool_choice_required is not None:
                self.body["tools"] = self._write_only(named)
            self._set_choice(param, "required")

    def _set_choice(self, param: str, choice: str) -> None:
        word = self._profile.tool_choice_required if choice == "required" else choice
        if word is None:
            self._warn_unsent(param, "this model's server cannot be forced to call a function")
        else:
            self.body["tool_choice"] = word

    # Reasoning and text.

    def _add_reasoning(self) -> None:
        reasoning: dict[str, Any] = {}
        effort = self._choose_effort()
        if effort is not None:
            reasoning["effort"] = effort
        if self._summary is not None and effort != "none":
            reasoning["summary"] = self._summary
        if reasoning:
            self.body["reasoning"] = reasoning
        budget = self._params.get("thinking_budget")
        if budget and self._params.get("enable_thinking") is not False:
            self._add_budget(budget)

    def _add_budget(self, budget: int) -> None:
        kind, most = self._profile.thinking_budget, self._profile.max_thinking_budget
        if kind not in ("thinking_budget", "thinking_budget_tokens"):
            self._warn_unsent("thinking_budget")
            return
        if "budget" in self._profile.effort_excludes and self._params.get("reasoning_effort") is not None:
            self._warn_unsent("thinking_budget", "this model's server takes either a budget or an effort")
            return
        if "budget" in self._profile.effort_excludes and isinstance(reasoning := self.body.get("reasoning"), dict):
            reasoning.pop("effort", None)
        if most is not None and budget > most:
            path = self._paths.param("thinking_budget")
            self.warnings.append(f"{path} was lowered to {most}, this server's maximum")
            budget = most
        self.body[kind] = budget
        if kind == "thinking_budget_tokens":
            self.body["reasoning_budget_tokens"] = budget

    def _resolve_thinking(self) -> None:
        """Change what the server refuses beside thinking, or does not enforce, or the thinking beside it."""
        if not is_thinking({**self._params, **self.body}, self._profile):
            return
        choice, rule = self.body.get("tool_choice"), self._profile.forced_choice_while_thinking
        if rule != "send" and choice not in (None, "auto", "none"):
            name = self._first_given("function_choice", "tool_choice")[0]
            why = "this model's server cannot be forced to call a function while the model thinks"
            if rule != "thinking_off" or not self._switch_thinking_off(name, why):
                self._leave_choice(name, choice, why)
        if self._profile.formats_while_thinking == "thinking_off" and "format" in self.body.get("text", {}):
            self._switch_thinking_off("response_format", "the server does not enforce it while the model thinks")

    def _leave_choice(self, name: str, choice: Any, why: str) -> None:
        del self.body["tool_choice"]
        if isinstance(choice, dict):
            self.body["tools"] = self._write_only(choice["name"])
        self._warn_unsent(name, why)

    def _switch_thinking_off(self, name: str, why: str) -> bool:
        """Switch thinking off for a parameter; return whether the model has an effort for that."""
        efforts = self._profile.efforts
        word = "none" if efforts is None else choose_effort("none", efforts)
        if word is None:
            return False
        self.body["reasoning"] = {"effort": word}
        for field in ("thinking_budget", "thinking_budget_tokens", "reasoning_budget_tokens"):
            self.body.pop(field, None)
        self.warnings.append(f"thinking was switched off for {self._paths.param(name)}: {why}")
        return True

    def _choose_effort(self) -> str | None:
        """Return the effort to send: the caller's, or the one that switches thinking off."""
        efforts = self._profile.efforts
        if self._params.get("enable_thinking") is False:
            return self._choose("enable_thinking", "none")
        name, wanted = self._first_given("reasoning_effort", PREFERRED_EFFORT)
        if wanted is None or (name == PREFERRED_EFFORT and efforts is not None and not efforts):
            return None
        return self._choose(name, str(wanted))

    def _choose(self, name: str, wanted: str) -> str | None:
        efforts = self._profile.efforts
        word = wanted if efforts is None else choose_effort(wanted, efforts)
        if word is None:
            self._warn_unsent(name, "no effort of this model says so (`efforts` of its profile)")
        elif word != wanted and name != "enable_thinking":
            text = f"{self._paths.param(name)} was sent as {word!r}: this model does not take {wanted!r}"
            self.warnings.append(text)
        return word

    def _add_text(self) -> None:
        text: dict[str, Any] = {}
        given = self._params.get("response_format")
        if isinstance(given, dict) and given.get("type") == "json_schema":
            inner = given.get("json_schema")
            schema = inner if isinstance(inner, dict) else {}
            names = ("name", "schema", "strict", "description")
            text["format"] = {"type": "json_schema"} | {
                name: schema[name] for name in names if schema.get(name) is not None
            }
        elif isinstance(given, dict) and given.get("type") not in (None, "text"):
            text["format"] = {"type": given["type"]}
        if text:
            self.body["text"] = text

    def add_extra_body(self) -> None:
        """Merge the caller's `extra_body`, which changes every field but those that choose model, conversation and
        way of the reply."""
        extra = self._extra_body
        for name in sorted(extra):
            path = json_path([name], self._paths.extra_body)
            if name == "store":
                if extra[name]:  # false, which some clients send with each request, is what the server gets
                    self.warnings.append(f"{path} was not sent: nothing is stored at the model server")
            elif name == "verbosity":
                self.body["text"] = {**self.body.get("text", {}), name: extra[name]}
            elif name in _OF_CHAT_COMPLETIONS:
                self.warnings.append(f"{path} was not sent: {NO_PARAMETER}")
            elif name in _RESERVED:
                self.violations.append(Violation(path, f"{_RESERVED[name]}: leave it out of extra_body"))
            elif self._profile.extra_fields is not None and name not in self._profile.extra_fields:
                self.violations.append(Violation(path, "is not a field that this model's server accepts"))
            else:
                self.body[name] = merge_extra(name, self.body.get(name), extra[name])


def write_tool(tool: Tool) -> dict[str, Any]:
    """Write a function. A schema without a type that says something goes as it is. `strict` is always sent: a missing
    one means true to OpenAI."""
    given = tool.schema.get("parameters")
    is_untyped = isinstance(given, dict) and given and given.get("type") is None
    function = tool.schema if is_untyped else complete_function(tool.schema, tool.encoded)
    names: Sequence[str] = ("name", "description", "parameters")
    written = {"type": "function"} | {name: function[name] for name in names if function.get(name) is not None}
    return written | {"strict": function.get("strict") is True}
