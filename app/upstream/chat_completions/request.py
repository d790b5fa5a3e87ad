"""Build the request body for one model server. Identical requests give identical bytes: the keys have a fixed order.

The caller's `extra_body` overrides every field except those of `_RESERVED`, which choose the model and the way its
reply is read; tools and objects in it are added (`merge_extra`).
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from app.chat.messages import BRIDGE, ChatRequest, Tool
from app.errors import InvalidInput, Violation
from app.openai_messages.messages import write_openai_messages
from app.openai_messages.tool_schemas import complete_function
from app.params import PREFERRED_EFFORT, UNSENT, find_max_tokens
from app.profiles import Profile
from app.profiles.thinking import is_thinking
from app.upstream.api import limit_temperature, merge_extra, should_stream, write_tools
from app.upstream.chat_completions.thinking import ASKED, FIELDS, write_thinking
from app.upstream.request_options import find_chosen_function
from app.validation.violations import json_path

_TRANSLATED = frozenset(
    {
        "max_tokens",
        "max_completion_tokens",
        "function_choice",
        "tool_choice",
        "parallel_function_calls",
        "parallel_tool_calls",
        "enable_thinking",
        "thinking_budget",
        "reasoning_effort",
        "extra_body",
        "stream_options",
        PREFERRED_EFFORT,
    }
)
_TOKEN_LIMITS = ("max_tokens", "max_completion_tokens")
SYSTEM_ROLES = ("system", "developer")
_ONE_REPLY = ("n", "best_of")
"""Fields of `extra_body` that must be 1, because a request has one reply."""
_NOT_RETURNED = {
    "logprobs": "the reply has log probabilities only where the request itself has `logprobs`",
    "top_logprobs": "the reply has log probabilities only where the request itself has `logprobs`",
    "prompt_logprobs": "Parley's replies carry no log probabilities of the prompt",
    "return_token_ids": "Parley's replies carry no token ids",
    "echo": "Parley's replies do not repeat the prompt",
}
"""Fields of `extra_body` that the server obeys, but whose results no format of Parley can carry."""
_RESERVED = ("model", "messages", "stream", "stream_options")
_encode = msgspec.json.Encoder().encode


def build(request: ChatRequest, model: str, profile: Profile) -> tuple[dict[str, Any], list[str]]:
    """Return the body to send, and a warning for each option that is not sent as given.

    `model` is the server's own name of the model. Raises InvalidInput with every violation: messages and options
    that this server cannot be sent.
    """
    before, paths = request.before, request.paths
    messages: list[Any]
    messages, violations = write_openai_messages(
        request.messages, profile, request.text_joiner, paths.conversation, request.calls_before
    )
    if before is not None:
        messages = [msgspec.Raw(before.written), *messages]
    elif profile.needs_user:
        messages = add_user(messages)
    streams = should_stream(request, profile)
    body: dict[str, Any] = {"model": model, "messages": messages, "stream": streams}
    warnings: list[str] = []
    if request.params or request.tools:
        warnings = _BodyBuilder(request, profile, body, violations).add_options()
    elif streams and profile.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if violations:
        raise InvalidInput(violations)
    for name in profile.caller_fields:
        if name in request.caller_fields:
            body.setdefault(name, request.caller_fields[name])
    if request.continue_last:
        _mark_continuation(profile, body)
    return body, warnings


def add_user(messages: list[Any]) -> list[Any]:
    """Return the messages with one of the user, if they have none: the last system message if there are only such, else
    a short one before the first message of another role."""
    if not messages or any(message.get("role") == "user" for message in messages):
        return messages
    begin = next((place for place, message in enumerate(messages) if message.get("role") not in SYSTEM_ROLES), None)
    if begin is None:
        return [*messages[:-1], {**messages[-1], "role": "user"}]
    return [*messages[:begin], {"role": "user", "content": BRIDGE}, *messages[begin:]]


class _BodyBuilder:
    """Adds the options of one request to its body, and collects warnings and violations."""

    def __init__(
        self, request: ChatRequest, profile: Profile, body: dict[str, Any], violations: list[Violation]
    ) -> None:
        self._tools = request.tools
        self._known = request.known
        self._paths = request.paths
        self._params = request.params
        self._profile = profile
        self._body = body
        self._violations = violations
        self.warnings: list[str] = []

    def add_options(self) -> list[str]:
        """Add all options and return the warnings."""
        self._add_stream_options()
        if self._params:
            self._add_plain_options()
            self._add_max_tokens()
        self._add_functions()
        if self._params:
            if not ASKED.isdisjoint(self._params):
                thinking, warnings = write_thinking(self._params, self._profile, self._paths)
                self._body |= thinking
                self.warnings += warnings
            if self._params.get("extra_body"):
                self._add_extra_body(self._params["extra_body"])
            if "switch" in self._profile.effort_excludes:
                self._resolve_two_switches()
        if self._profile.forced_choice_while_thinking != "send":
            self._resolve_forced_choice()
        if self._profile.formats_while_thinking == "thinking_off":
            self._resolve_format()
        return self.warnings

    def _warn_unsent(self, name: str, why: str = "this model's server has no such parameter") -> None:
        self._warn_unsent_at(self._paths.param(name), why)

    def _warn_unsent_at(self, path: str, why: str) -> None:
        self.warnings.append(f"{path} was not sent: {why}")

    def _refuse(self, path: str, why: str) -> None:
        self._violations.append(Violation(path, why))

    def _first_given(self, *names: str) -> tuple[str, Any]:
        """Return the first of these parameters that has a value, with the value."""
        return next(
            ((name, value) for name in names if (value := self._params.get(name)) is not None), (names[0], None)
        )

    def _add_stream_options(self) -> None:
        """Ask for the usage of every stream. The caller's `stream_options` have no effect on a reply not streamed."""
        given = self._params.get("stream_options") or {}
        if self._profile.stream_usage and self._body["stream"]:
            self._body["stream_options"] = {**given, "include_usage": True}
        elif any(value for name, value in given.items() if name != "include_usage"):
            self._warn_unsent("stream_options")

    def _add_plain_options(self) -> None:
        for name in sorted(self._params):
            value = self._params[name]
            if name in _TRANSLATED or name in UNSENT or value is None or value == []:  # OpenAI refuses an empty `stop`
                continue
            if name in self._profile.lacks:
                self._warn_unsent(name)
                continue
            if name == "temperature":
                value, warnings = limit_temperature(value, self._profile, self._paths.param(name))
                self.warnings += warnings
            self._body[self._profile.renamed.get(name, name)] = value

    def _add_max_tokens(self) -> None:
        """Send the limit under exactly one of its two names, as the profile says, and no larger than the model
        takes."""
        most, largest = find_max_tokens({}, self._params), self._profile.max_output_tokens
        if most is None:
            return
        if len({self._params.get(name) for name in _TOKEN_LIMITS} - {None}) > 1:
            names = " and ".join(map(self._paths.param, _TOKEN_LIMITS))
            self.warnings.append(f"{names} are two names of one limit: the smaller one, {most}, was sent")
        if largest is not None and most > largest:
            path = self._paths.param(self._first_given(*_TOKEN_LIMITS)[0])
            text = f"{path} was lowered from {most} to {largest}, the maximum of this model's profile"
            self.warnings.append(text)
            most = largest
        smallest = self._profile.min_output_tokens
        if smallest is not None and most < smallest:
            path = self._paths.param(self._first_given(*_TOKEN_LIMITS)[0])
            self.warnings.append(f"{path} was raised from {most} to {smallest}, the least that this server takes")
            most = smallest
        self._body[self._profile.max_tokens_field] = most

    def _add_functions(self) -> None:
        name, choice = self._first_given("function_choice", "tool_choice")
        if not self._tools:
            if choice not in (None, "auto", "none"):
                self._refuse(self._paths.param(name), "needs functions to choose from, but the request has none")
            return
        if choice == "none" and not self._profile.tool_choice_none:
            return
        is_final = "tools" not in (self._params.get("extra_body") or {})
        self._body["tools"] = write_tools(self._tools, _write_tool, self._known if is_final else None)
        if choice is not None:
            self._add_tool_choice(name, choice)
        name, parallel = self._first_given("parallel_function_calls", "parallel_tool_calls")
        if parallel is not None and self._profile.parallel_tool_calls:
            self._body["parallel_tool_calls"] = parallel
        elif parallel is False:
            self._warn_unsent(name)

    def _add_tool_choice(self, name: str, choice: Any) -> None:
        named = find_chosen_function(choice)
        if named is None:
            self._set_tool_choice(name, choice)
        elif named not in {tool.name for tool in self._tools}:
            names = ", ".join(sorted(tool.name for tool in self._tools))
            text = f"must be auto, none, required or one of the functions ({names}), not {named!r}"
            self._refuse(self._paths.param(name), text)
        elif self._profile.named_tool_choice:
            self._body["tool_choice"] = {"type": "function", "function": {"name": named}}
        else:
            # With `required` and no other function to choose, the server calls this one.
            if self._profile.tool_choice_required is not None:
                self._body["tools"] = [_write_tool(tool) for tool in self._tools if tool.name == named]
            self._set_tool_choice(name, "required")

    def _set_tool_choice(self, name: str, choice: str) -> None:
        word = self._profile.tool_choice_required if choice == "required" else choice
        if word is None:
            self._warn_unsent(name, "this model's server cannot be forced to call a function")
        else:
            self._body["tool_choice"] = word

    def _resolve_two_switches(self) -> None:
        """Leave out the effort or a `thinking` of the caller's own, where the server refuses both together."""
        thinking = self._body.get("thinking")
        if thinking is None or "reasoning_effort" not in self._body:
            return
        if is_thinking({"thinking": thinking}, self._profile):
            del self._body["thinking"]
            if thinking != {"type": "enabled"}:
                self._warn_unsent_at(self._paths.extra("thinking"), "this model's server takes either it or an effort")
        else:
            del self._body["reasoning_effort"]
            self._warn_unsent("reasoning_effort", "thinking is off, and this model's server takes only one of them")

    def _resolve_forced_choice(self) -> None:
        """Change a choice that demands a call, or the thinking beside it, where the server refuses both together."""
        rule, choice = self._profile.forced_choice_while_thinking, self._body.get("tool_choice")
        if choice in (None, "auto", "none") or not is_thinking(self._body, self._profile):
            return
        name = self._first_given("function_choice", "tool_choice")[0]
        refused = "this model's server cannot be forced to call a function while the model thinks"
        if rule == "thinking_off" and self._switch_thinking_off(name, refused):
            return
        del self._body["tool_choice"]
        named = choice["function"]["name"] if isinstance(choice, dict) else None
        if named is not None:
            self._body["tools"] = [_write_tool(tool) for tool in self._tools if tool.name == named]
        self._warn_unsent(name, refused)

    def _resolve_format(self) -> None:
        """Switch thinking off beside a response format, if that is what the profile says."""
        format_ = self._body.get("response_format")
        kind = format_.get("type") if isinstance(format_, dict) else None
        if kind in ("json_object", "json_schema") and is_thinking(self._body, self._profile):
            why = "this model's server does not enforce it while the model thinks"
            self._switch_thinking_off("response_format", why)

    def _switch_thinking_off(self, name: str, why: str) -> bool:
        """Switch thinking off for a parameter; return whether the server has a switch."""
        off = write_thinking({"enable_thinking": False}, self._profile)[0]
        if not off:
            return False
        for field in FIELDS:
            self._body.pop(field, None)
        self._body |= {field: merge_extra(field, self._body.get(field), value) for field, value in off.items()}
        self.warnings.append(f"thinking was switched off for {self._paths.param(name)}: {why}")
        return True

    def _add_extra_body(self, extra: Mapping[str, Any]) -> None:
        for name in sorted(extra):
            path = json_path([name], self._paths.extra_body)
            if name in _RESERVED:
                self._refuse(path, "is set by the gateway: leave it out of extra_body")
            elif name == "web_search_options" and not self._profile.web_search_options:
                self._warn_unsent_at(path, "this model's server does not search the web")
            elif self._profile.extra_fields is not None and name not in self._profile.extra_fields:
                self._refuse(path, "is not a field that this model's server accepts")
            elif name in _ONE_REPLY and extra[name] not in (None, 1):
                self._refuse(path, "must be 1: a request has one reply")
            else:
                if name in _NOT_RETURNED and extra[name]:
                    self.warnings.append(f"{path} is sent, but {_NOT_RETURNED[name]}")
                self._body[name] = merge_extra(name, self._body.get(name), extra[name])


def _write_tool(tool: Tool) -> dict[str, Any]:
    body: dict[str, Any] = {"type": "function", "function": complete_function(tool.schema, tool.encoded)}
    return body | {"cache_control": dict(tool.mark.value)} if tool.mark else body


def _mark_continuation(profile: Profile, body: dict[str, Any]) -> None:
    last = body["messages"][-1]
    if last["role"] != "assistant":
        return
    if profile.continuation in ("prefix", "partial"):
        body["messages"][-1] = {**last, profile.continuation: True}
    elif profile.continuation == "continue_final_message":
        body |= {"continue_final_message": True, "add_generation_prompt": False}
