"""The `thinking` of a body of the Messages API, its effort, and the limit of tokens that it needs."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from app.chat.messages import RequestPaths
from app.params import PREFERRED_EFFORT
from app.profiles import Profile
from app.upstream.chat_completions.thinking import choose_effort, write_thinking

MIN_BUDGET, MAX_BUDGET = 1024, 32_000
"""The smallest budget of the API (platform.claude.com, extended thinking), and the largest that an effort becomes."""
_SHARES = {"minimal": 20, "low": 20, "medium": 50, "high": 80, "xhigh": 80, "max": 80}
"""The budget of an effort, in per cent of `max_tokens` (openrouter.ai/docs/use-cases/reasoning-tokens)."""


class Thinking(NamedTuple):
    field: dict[str, Any] | None
    """The field `thinking`; None: it is not sent."""
    effort: str | None
    """`output_config.effort`."""
    max_tokens: int
    warnings: tuple[str, ...] = ()
    variables: dict[str, Any] | None = None
    """`chat_template_kwargs`, for servers that switch thinking by them."""

    @property
    def thinks(self) -> bool:
        return self.field is not None and self.field["type"] != "disabled"


def choose_thinking(
    params: Mapping[str, Any], profile: Profile, max_tokens: int | None, paths: RequestPaths
) -> Thinking:
    """Return what is sent for a request's thinking. `max_tokens` is the caller's limit."""
    enabled, budget = params.get("enable_thinking"), params.get("thinking_budget")
    own, preferred = params.get("reasoning_effort"), params.get(PREFERRED_EFFORT)
    most = profile.default_max_tokens if max_tokens is None else max_tokens
    wants = enabled is True or (budget or 0) > 0 or own not in (None, "none")
    if profile.thinking_switch == "chat_template_kwargs":
        return _set_variables(params, profile, most, paths)
    if profile.thinking_switch == "none":
        warnings = tuple(
            f"{paths.param(name)} was not sent: this model does not think"
            for name in ("enable_thinking", "thinking_budget", "reasoning_effort")
            if wants and params.get(name)
        )
        return Thinking(None, None, most, warnings)
    if enabled is False or (own == "none" and enabled is None):
        return Thinking({"type": "disabled"}, None, most)
    if budget and budget > 0:
        path, largest = paths.param("thinking_budget"), profile.max_thinking_budget
        if largest is None or budget <= largest:
            return _limit_budget(max(budget, MIN_BUDGET), max_tokens, profile, path)
        limited = _limit_budget(max(largest, MIN_BUDGET), max_tokens, profile, path)
        return limited._replace(warnings=(f"{path} was lowered to {largest}, this server's maximum", *limited.warnings))
    if profile.thinking_switch == "adaptive":
        return _adapt(own, preferred, profile, most, paths, wants=wants)
    if not wants:
        return Thinking(None, None, most)
    name = "reasoning_effort" if own is not None else "enable_thinking"
    return _limit_budget(share_budget(own, most), max_tokens, profile, paths.param(name))


def share_budget(effort: str | None, max_tokens: int) -> int:
    """Return the budget of an effort."""
    share = max_tokens * _SHARES.get(effort or "high", _SHARES["medium"]) // 100
    return min(max(share, MIN_BUDGET), MAX_BUDGET)


def obeys_anthropic(profile: Profile) -> bool:
    """Whether the server refuses beside thinking what Anthropic's refuses: a temperature, a demanded call."""
    return profile.thinking_switch != "chat_template_kwargs"


def _set_variables(params: Mapping[str, Any], profile: Profile, most: int, paths: RequestPaths) -> Thinking:
    """Write what chat completions have in fields of their own: the chat template reads it, except for the budget."""
    fields, warnings = write_thinking(params, profile, paths)
    variables = dict(fields.get("chat_template_kwargs", {}))
    if "reasoning_effort" in fields:
        variables["reasoning_effort"] = fields["reasoning_effort"]
    budget = fields.get("thinking_budget")
    field = None if budget is None else {"type": "enabled", "budget_tokens": budget}
    return Thinking(field, None, most, tuple(warnings), variables or None)


def _adapt(
    own: str | None, preferred: str | None, profile: Profile, most: int, paths: RequestPaths, *, wants: bool
) -> Thinking:
    """Let the model decide how much it thinks. Anthropic's clients send an effort also without thinking."""
    field = {"type": "adaptive", **_write_binding(profile)} if wants else None
    effort, warnings = own or preferred, ()
    if effort is not None and effort != "none" and profile.efforts is not None:
        chosen = choose_effort(effort, profile.efforts)
        if chosen != effort and own is not None:
            text = "was not sent" if chosen is None else f"was sent as {chosen!r}"
            why = "this model has other efforts" if chosen is not None else "this model takes no effort"
            return Thinking(field, chosen, most, (f"{paths.param('reasoning_effort')} {text}: {why}",))
        effort = chosen
    if effort == "none":
        effort = None
    return Thinking(field, "low" if effort == "minimal" else effort, most, warnings)


def _limit_budget(budget: int, max_tokens: int | None, profile: Profile, path: str) -> Thinking:
    """Return a budget that is below the limit of tokens, which must have room for both."""
    if max_tokens is None:
        most = budget + profile.default_max_tokens
        largest = profile.max_output_tokens
        if largest is None or most <= largest:
            return Thinking(_write_budget(budget, profile), None, most)
        max_tokens = largest
    if budget < max_tokens:
        return Thinking(_write_budget(budget, profile), None, max_tokens)
    if max_tokens - 1 < MIN_BUDGET:
        text = f"{path} was not sent: max_tokens is {max_tokens}, and thinking needs at least {MIN_BUDGET} of them"
        return Thinking(None, None, max_tokens, (text,))
    text = f"{path}: the budget was lowered from {budget} to {max_tokens - 1}, below max_tokens"
    return Thinking(_write_budget(max_tokens - 1, profile), None, max_tokens, (text,))


def _write_budget(budget: int, profile: Profile) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": budget, **_write_binding(profile)}


def _write_binding(profile: Profile) -> dict[str, Any]:
    if profile.thinking_binding is None:
        return {}
    return {"block_binding": {"prefix_mismatch_behavior": profile.thinking_binding}}
