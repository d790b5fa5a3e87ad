"""The `thinkingConfig` of a body of the Gemini API (ai.google.dev/gemini-api/docs/thinking).

Gemini 3 and later have levels, Gemini 2.5 has a budget of tokens; a request with both is refused.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from app.chat.messages import RequestPaths
from app.params import PREFERRED_EFFORT
from app.profiles import Profile
from app.upstream.chat_completions.thinking import choose_effort

_LEVELS = ("minimal", "low", "medium", "high")
_MOST_TOKENS = ((2048, "low"), (8192, "medium"))
"""The largest budget that becomes each level."""
_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24_576, "xhigh": 24_576, "max": 24_576}
_ASKED = {"includeThoughts": True}


class Thinking(NamedTuple):
    config: dict[str, Any] | None
    """None: the body has none."""
    warnings: tuple[str, ...] = ()


def choose_thinking(params: Mapping[str, Any], profile: Profile, paths: RequestPaths) -> Thinking:
    """Return what is sent for a request's thinking."""
    enabled, budget = params.get("enable_thinking"), params.get("thinking_budget")
    effort = params.get("reasoning_effort")
    if profile.thinking_switch == "none":
        given = [name for name in ("enable_thinking", "thinking_budget", "reasoning_effort") if params.get(name)]
        asked = [name for name in given if params[name] != "none"]
        return Thinking(None, tuple([_describe_unsent(paths, name, "this model does not think") for name in asked]))
    off = enabled is False or (enabled is None and (effort == "none" or budget == 0))
    choose = _choose_budget if profile.thinking_switch == "gemini_budget" else _choose_level
    return choose(params, profile, paths, off=off)


def _choose_level(params: Mapping[str, Any], profile: Profile, paths: RequestPaths, *, off: bool) -> Thinking:
    known = {word: word for word in _LEVELS} if profile.efforts is None else profile.efforts
    levels = known if isinstance(known, dict) else {word: word for word in known}
    levels = {word: sent for word, sent in levels.items() if word != "none"}
    name, wanted = _find_effort(params)
    budget = params.get("thinking_budget")
    if off:
        least = choose_effort("minimal", levels)
        named = next((one for one in ("enable_thinking", "reasoning_effort") if params.get(one) is not None), "")
        path = paths.param(named or "thinking_budget")
        if least is None:
            return Thinking(None, (f"{path}: this model cannot be switched to think less",))
        text = f"{path}: this model cannot be switched off: the least level, {least!r}, was sent"
        return Thinking({"thinkingLevel": least.upper()}, (text,))
    if wanted is None:
        return _choose_level_of(budget, levels, paths)
    warnings = []
    if budget:
        warnings.append(_describe_unsent(paths, "thinking_budget", "this model's server takes either it or an effort"))
    level = choose_effort(wanted, levels)
    if level is None:
        if name != PREFERRED_EFFORT:
            warnings.append(_describe_unsent(paths, name, "this model has no such effort (`efforts` of its profile)"))
        return Thinking(dict(_ASKED), tuple(warnings))
    if level.lower() != wanted and name != PREFERRED_EFFORT:
        warnings.append(f"{paths.param(name)} was sent as {level!r}: this model does not take {wanted!r}")
    return Thinking({**_ASKED, "thinkingLevel": level.upper()}, tuple(warnings))


def _choose_level_of(budget: int | None, levels: Mapping[str, str], paths: RequestPaths) -> Thinking:
    if not budget:
        return Thinking(dict(_ASKED))
    level = choose_effort(next((word for most, word in _MOST_TOKENS if budget <= most), "high"), levels)
    if level is None:
        return Thinking(dict(_ASKED), (_describe_unsent(paths, "thinking_budget", "this model has no budget"),))
    text = f"{paths.param('thinking_budget')} was sent as the level {level!r}: this model has levels, and no budget"
    return Thinking({**_ASKED, "thinkingLevel": level.upper()}, (text,))


def _choose_budget(params: Mapping[str, Any], profile: Profile, paths: RequestPaths, *, off: bool) -> Thinking:
    if off:
        return Thinking({"thinkingBudget": 0})
    name, wanted = _find_effort(params)
    budget, warnings = params.get("thinking_budget"), []
    if not budget and wanted is not None:
        budget = _BUDGETS.get(wanted)
        if budget is None and name != PREFERRED_EFFORT:
            warnings.append(_describe_unsent(paths, name, "its budget is not known"))
    elif budget and wanted is not None and name != PREFERRED_EFFORT:
        warnings.append(_describe_unsent(paths, name, "this model's server takes either it or a budget"))
    most = profile.max_thinking_budget
    if budget and most is not None and budget > most:
        if params.get("thinking_budget"):
            warnings.append(f"{paths.param('thinking_budget')} was lowered to {most}, this server's maximum")
        budget = most
    return Thinking({**_ASKED, "thinkingBudget": budget} if budget else dict(_ASKED), tuple(warnings))


def _find_effort(params: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the name and the value of the request's effort, which its client may send with every request."""
    for name in ("reasoning_effort", PREFERRED_EFFORT):
        if params.get(name) not in (None, "none"):
            return name, str(params[name])
    return "reasoning_effort", None


def _describe_unsent(paths: RequestPaths, name: str, why: str) -> str:
    return f"{paths.param(name)} was not sent: {why}"
