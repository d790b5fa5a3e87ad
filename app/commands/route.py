"""`parley route`: say which model a request for a virtual model would get, and why. No model is asked."""

import argparse
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from app.api.live_configuration import request_limits
from app.commands.command_line import UsageError
from app.commands.configuration import load_settings
from app.config.registry import ModelRegistry
from app.config.settings import Settings, SettingsError
from app.errors import InvalidInput, ParleyError
from app.formats.anthropic.body import parse_messages_body
from app.formats.body import ParsedRequest, RejectedRequest, UnresolvedRequest
from app.formats.chat_body import parse_chat_body
from app.formats.openai.body import parse_completions_body
from app.formats.request_limits import RequestLimits
from app.formats.responses.body import parse_responses_body
from app.gateway import count_tokens
from app.routing import ModelRoute
from app.routing.rules import Check, RequestFacts, RouteRules, check_conditions, choose_model
from app.terminal.screen import replace_control_characters

_PARSERS: Mapping[str, Callable[[bytes, RequestLimits], Any]] = {
    "chat_completions": parse_completions_body,
    "responses": parse_responses_body,
    "messages": parse_messages_body,
    "chat": parse_chat_body,
}


def run(arguments: argparse.Namespace) -> int:
    settings = load_settings(arguments.config)
    parsed = _read_request(arguments, settings)
    try:
        registry = ModelRegistry(settings, (lambda: "http://127.0.0.1") if settings.demo else None)
    except SettingsError as error:
        raise UsageError(*error.mistakes) from None
    name = parsed.settings.model or registry.default_model
    route = None if name is None else registry.find(name)
    if name is None or route is None:
        raise UsageError("the request names no model" if name is None else f"there is no model {name!r}")
    if route.rules is None:
        print(f"{name}: {route.model}, which is no virtual model")
        return 0
    facts = _make_facts(arguments, settings, registry, parsed, name, route)
    try:
        lines = _explain(route.rules, facts) if arguments.explain else []
        choice = choose_model(route.rules, facts)
    except ParleyError as error:
        return _print_error(error)
    for line in [*lines, f"{route.model}/{choice.label}: {choice.model}"]:
        print(replace_control_characters(line))
    return 0


def _read_request(arguments: argparse.Namespace, settings: Settings) -> ParsedRequest:
    """Raises UsageError."""
    try:
        raw = sys.stdin.buffer.read() if str(arguments.file) == "-" else arguments.file.read_bytes()
    except OSError as error:
        raise UsageError(f"{arguments.file}: cannot be read ({error.strerror})") from None
    parsed = _PARSERS[arguments.format](raw, request_limits(settings.server))
    if isinstance(parsed, UnresolvedRequest):
        raise UsageError(f"{arguments.file}: refers to what a gateway has stored: give the whole conversation")
    if isinstance(parsed, RejectedRequest):
        raise UsageError(*(f"{arguments.file}: {line}" for line in _describe_error(parsed.error)))
    assert isinstance(parsed, ParsedRequest)
    return parsed


def _make_facts(
    arguments: argparse.Namespace,
    settings: Settings,
    registry: ModelRegistry,
    parsed: ParsedRequest,
    name: str,
    route: ModelRoute,
) -> RequestFacts:
    row = settings.keys.get(arguments.key)
    if arguments.key and row is None:
        raise UsageError(f"there is no key {arguments.key!r} in the configuration")
    return RequestFacts(
        parsed.request,
        name,
        dict(_parse_header(text) for text in arguments.headers),
        arguments.key,
        "" if row is None else row.team or "",
        parsed.reply_format.name if arguments.format == "chat" else arguments.format,
        partial(count_tokens, route, parsed.request, registry.counters.get),
    )


def _parse_header(text: str) -> tuple[bytes, bytes]:
    name, colon, value = text.partition(":")
    try:
        if colon and name.strip():
            return name.strip().lower().encode("latin-1"), value.strip().encode("latin-1")
    except UnicodeEncodeError:
        pass
    raise UsageError(f"--header must be 'name: value', not {text!r}")


def _explain(rules: RouteRules, facts: RequestFacts) -> list[str]:
    """Return a line for each condition of each rule. Raises ParleyError if the tokens cannot be counted."""
    lines = []
    for number, rule in enumerate(rules.rules, 1):
        checks = list(check_conditions(rule.when, facts))
        lines.append(f"rule {number} → {rule.use}: {'holds' if all(check.holds for check in checks) else 'no'}")
        lines += [f"  {'yes' if check.holds else 'no '}  {_describe_check(check)}" for check in checks]
    return [*lines, f"default → {rules.use}"]


def _describe_check(check: Check) -> str:
    return f"{check.name} {_describe_value(check.wanted)}; the request has {_describe_value(check.given)}"


def _describe_value(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None or value == "" else str(value).lower() if isinstance(value, bool) else str(value)


def _print_error(error: ParleyError) -> int:
    for line in _describe_error(error):
        print(f"parley: {replace_control_characters(line)}", file=sys.stderr)
    return 1


def _describe_error(error: ParleyError) -> list[str]:
    violations = error.violations if isinstance(error, InvalidInput) else ()
    return [f"{violation.path}: {violation.message}" for violation in violations] or [error.message]
