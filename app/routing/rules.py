"""Virtual models: rules over facts of a request choose the model that answers it. No model is asked for that."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from app.chat.messages import ChatRequest, FormatName, Media, MediaKind, ToolResult
from app.validation.wildcards import match_any_wildcard

Patterns: TypeAlias = tuple[str, ...]
FormatWord: TypeAlias = Literal["messages", "chat_completions", FormatName]
"""The endpoint of a request, or for `/v1/chat` the format of its messages."""


_CLAUDE_PREFIX = "claude-parley-"
"""What a model's name has before it in the list that Claude Code gets."""


class Conditions(Struct, frozen=True):
    """All that are set must hold. Of several patterns or words, one must fit."""

    tokens_above: int | None = None
    media: tuple[MediaKind, ...] = ()
    thinking: bool | None = None
    tool: Patterns = ()
    model: Patterns = ()
    """Of the name that the client sent."""
    header: Mapping[str, Patterns] = {}
    """By the header's name, in small letters."""
    user_agent: Patterns = ()
    key: Patterns = ()
    team: Patterns = ()
    format: tuple[FormatWord, ...] = ()


class Rule(Struct, frozen=True):
    when: Conditions
    use: str


class TargetLimits(Struct, frozen=True):
    """What a conversation must have to fit a model."""

    media: frozenset[MediaKind]
    """What the model takes on each of its servers."""
    max_tokens: int | None
    """The longest conversation; None if it is not known."""


class RouteRules(Struct, frozen=True):
    """The rules of a virtual model, in their order, and the model for all other requests."""

    rules: tuple[Rule, ...]
    use: str
    targets: Mapping[str, TargetLimits]
    """Every model that may be chosen."""
    keep_seconds: float
    """How long a session keeps its model without a request."""


class Choice(Struct, frozen=True):
    model: str
    label: str
    """The number of the rule, from 1 on, or `default`."""


class Check(Struct, frozen=True):
    """One condition of a rule, and what the request has."""

    name: str
    wanted: Any
    given: Any
    holds: bool


class RequestFacts:
    """What rules ask about a request. What takes time is found out when it is asked for."""

    def __init__(
        self,
        request: ChatRequest,
        model: str,
        headers: Mapping[bytes, bytes],
        key: str,
        team: str,
        format_: str,
        count_tokens: Callable[[], int],
    ) -> None:
        """`headers` have names in small letters. `count_tokens` counts the whole request for the default model."""
        self._request = request
        self.model = model.removeprefix(_CLAUDE_PREFIX)
        self._headers = headers
        self.key = key
        self.team = team
        self.format = format_
        self._count_tokens = count_tokens

    @cached_property
    def tokens(self) -> int:
        return self._count_tokens()

    @cached_property
    def media(self) -> frozenset[MediaKind]:
        parts = [part for message in self._request.messages for part in message.parts]
        parts += [one for part in parts if isinstance(part, ToolResult) for one in part.content]
        return frozenset(part.media for part in parts if isinstance(part, Media))

    @property
    def thinking(self) -> bool:
        """Whether the request switches thinking on. An adaptive model decides itself, which says nothing."""
        params = self._request.params
        on, budget, effort = (params.get(key) for key in ("enable_thinking", "thinking_budget", "reasoning_effort"))
        return on is not False and (on is True or bool(budget) or effort not in (None, "none"))

    @cached_property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that are offered, and the types of those that the client's own API runs."""
        passed = self._request.passed
        given = [] if passed is None else _read_tools(passed.body.get("tools"))
        types = [tool["type"] for tool in given if isinstance(tool, dict) and isinstance(tool.get("type"), str)]
        own = [one for one in types if one not in ("function", "custom")]
        return tuple(dict.fromkeys((*(tool.name for tool in self._request.tools), *own)))

    def header(self, name: str) -> str | None:
        value = self._headers.get(name.encode("latin-1"))
        return None if value is None else value.decode("latin-1")


def _read_tools(tools: Any) -> list[Any]:
    if isinstance(tools, msgspec.Raw):
        tools = msgspec.json.decode(tools)
    return tools if isinstance(tools, list) else []


def check_conditions(when: Conditions, facts: RequestFacts) -> Iterator[Check]:
    """Yield a check for each condition that is set, the cheap ones first."""
    texts: list[tuple[str, Patterns, Callable[[], str | None]]] = [
        ("model", when.model, lambda: facts.model),
        ("key", when.key, lambda: facts.key),
        ("team", when.team, lambda: facts.team),
        ("user_agent", when.user_agent, lambda: facts.header("user-agent")),
    ]
    for name, patterns, get in texts:
        if patterns:
            yield _check_text(name, patterns, get())
    for header, patterns in when.header.items():
        yield _check_text(f"header {header}", patterns, facts.header(header))
    if when.format:
        yield Check("format", when.format, facts.format, facts.format in when.format)
    if when.thinking is not None:
        yield Check("thinking", when.thinking, facts.thinking, facts.thinking is when.thinking)
    if when.tool:
        fitting = [name for name in facts.tools if match_any_wildcard(when.tool, name)]
        yield Check("tool", when.tool, facts.tools, bool(fitting))
    if when.media:
        yield Check("media", when.media, sorted(facts.media), not facts.media.isdisjoint(when.media))
    if when.tokens_above is not None:
        yield Check("tokens_above", when.tokens_above, facts.tokens, facts.tokens > when.tokens_above)


def _check_text(name: str, patterns: Patterns, given: str | None) -> Check:
    return Check(name, patterns, given, given is not None and match_any_wildcard(patterns, given))


def choose_model(rules: RouteRules, facts: RequestFacts) -> Choice:
    """Return the model of the first rule whose conditions hold, else the default one."""
    return _choose(rules, facts, lambda _: True) or Choice(rules.use, "default")


def choose_fitting_model(rules: RouteRules, facts: RequestFacts) -> Choice | None:
    """Do the same among the models that the conversation fits; None if it fits none."""
    return _choose(rules, facts, lambda model: fits(rules, model, facts))


def _choose(rules: RouteRules, facts: RequestFacts, may_be: Callable[[str], bool]) -> Choice | None:
    for number, rule in enumerate(rules.rules, 1):
        if all(check.holds for check in check_conditions(rule.when, facts)) and may_be(rule.use):
            return Choice(rule.use, str(number))
    return Choice(rules.use, "default") if may_be(rules.use) else None


def fits(rules: RouteRules, model: str, facts: RequestFacts) -> bool:
    """Whether the model takes the media of the conversation, and is not too small for it. Files fit all models, because
    those that do not take them get their text."""
    limits = rules.targets[model]
    if not facts.media - limits.media <= {"file"}:
        return False
    return limits.max_tokens is None or facts.tokens <= limits.max_tokens
