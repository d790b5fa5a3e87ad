"""Writes a request's thinking switch, budget and effort as a server of a profile takes them."""

from collections.abc import Mapping
from typing import Any

from app.chat.messages import CHAT_PATHS, RequestPaths
from app.params import PREFERRED_EFFORT
from app.profiles import Profile

_LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The known efforts, in ascending order."""
_ON = "default"
"""Groq's effort for a model that either thinks or does not."""
_USUAL = ("low", "medium", "high")
"""The efforts that every server with efforts knows."""
_OWN_SWITCHES = ("chat_template_kwargs", "thinking_type", "adaptive", "reasoning_object")
"""The switches that only servers have which are known to obey them."""
_ON_TYPES = {"thinking_type": "enabled", "adaptive": "adaptive"}
"""The type of `thinking` that switches it on."""
FIELDS = (
    *("enable_thinking", "thinking", "reasoning", "reasoning_effort"),
    *("thinking_budget", "thinking_token_budget", "thinking_budget_tokens", "reasoning_budget_tokens"),
)
"""Fields of a body that a request without thinking does not have."""
_OPTIONS = ("enable_thinking", "thinking_budget", "reasoning_effort")
ASKED = frozenset((*_OPTIONS, PREFERRED_EFFORT))
"""The parameters that ask for thinking, or for none."""


def write_thinking(
    params: Mapping[str, Any], profile: Profile, paths: RequestPaths = CHAT_PATHS
) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of the body for thinking, and a warning for each option that is not sent as given."""
    writer = _ThinkingWriter(params, profile, paths)
    writer.write()
    return writer.fields, writer.warnings


def choose_effort(wanted: str, efforts: tuple[str, ...] | Mapping[str, str]) -> str | None:
    """Return the value to send for an effort: of the model's levels the nearest, the higher of two that are equally
    near. None if the model has no level. `none`, which switches thinking off, is only itself."""
    known = efforts if isinstance(efforts, Mapping) else {word: word for word in efforts}
    if wanted in known:
        return known[wanted]
    levels = [word for word in known if word != "none"]
    if wanted == "none" or not levels:
        return None
    ranked = [word for word in levels if word in _LEVELS]
    if wanted not in _LEVELS or not ranked:
        return known[levels[0]] if wanted in _LEVELS else None
    rank = _LEVELS.index(wanted)
    return known[min(ranked, key=lambda word: (abs(_LEVELS.index(word) - rank), -_LEVELS.index(word)))]


class _ThinkingWriter:
    def __init__(self, params: Mapping[str, Any], profile: Profile, paths: RequestPaths) -> None:
        self._paths = paths
        self._params = params
        self._profile = profile
        self.fields: dict[str, Any] = {}
        self.warnings: list[str] = []

    def write(self) -> None:
        for name in _OPTIONS:
            if name in self._profile.lacks and self._params.get(name) is not None:
                self._warn_unsent(name, "this model's server has no such parameter")
        if self._profile.lacks:
            self._params = {name: value for name, value in self._params.items() if name not in self._profile.lacks}
        enabled, budget = self._params.get("enable_thinking"), self._params.get("thinking_budget")
        if enabled is None and self._params.get("reasoning_effort") == "none" and self._has_another_switch():
            enabled = False
        else:
            self._write_effort(enabled)
        if enabled is not None and not self._is_implied(enabled):
            self._switch_thinking(enabled)
        if budget is not None and enabled is not False and budget > 0:
            self._write_budget(budget)

    def _has_another_switch(self) -> bool:
        """Whether the server switches thinking off by another field than an effort, and takes no effort `none`."""
        efforts, switch = self._profile.efforts, self._profile.thinking_switch
        if efforts is not None and "none" in efforts:
            return False
        return switch in _OWN_SWITCHES or (switch == "enable_thinking" and efforts is not None)

    def _warn_unsent(self, name: str, why: str) -> None:
        self.warnings.append(f"{self._paths.param(name)} was not sent: {why}")

    def _write_effort(self, enabled: bool | None) -> None:
        own, preferred = self._params.get("reasoning_effort"), self._params.get(PREFERRED_EFFORT)
        if own is not None:
            if enabled is False and "switch" in self._profile.effort_excludes:
                self._warn_unsent("reasoning_effort", "thinking is off, and this model's server takes only one of them")
            else:
                self._send_effort("reasoning_effort", own)
        elif preferred is not None and enabled is not False and self._takes_preferred():
            self._send_effort(PREFERRED_EFFORT, preferred)

    def _takes_preferred(self) -> bool:
        """Whether an effort that a client sends with every request, whatever the model, is sent."""
        efforts = self._profile.efforts
        if efforts is None:
            return self._profile.thinking_switch == "reasoning_effort"
        return any(word != "none" for word in efforts)

    def _send_effort(self, name: str, wanted: str) -> None:
        efforts = self._profile.efforts
        if efforts is None and name == PREFERRED_EFFORT:
            efforts = _USUAL  # clients of Anthropic have efforts that other servers do not know
        word = wanted if efforts is None else choose_effort(wanted, efforts)
        if word is None:
            known = f"this model takes only {', '.join(efforts)}" if efforts else "this model takes no effort"
            self._warn_unsent(name, f"{known} (`efforts` of its profile)")
            return
        if word != wanted:
            self.warnings.append(f"{self._paths.param(name)} was sent as {word!r}: this model does not take {wanted!r}")
        self.fields["reasoning_effort"] = word

    def _is_implied(self, enabled: bool) -> bool:
        """Whether the effort says that thinking is on, and the server refuses both."""
        return enabled and "reasoning_effort" in self.fields and "switch" in self._profile.effort_excludes

    def _switch_thinking(self, enabled: bool) -> None:
        switch = self._profile.thinking_switch
        if switch == "enable_thinking":
            self.fields["enable_thinking"] = enabled
        elif switch == "chat_template_kwargs":
            # Qwen3's and GLM's templates read `enable_thinking`, DeepSeek's and Kimi's `thinking`; others ignore both.
            self.fields["chat_template_kwargs"] = {"enable_thinking": enabled, "thinking": enabled}
        elif switch in _ON_TYPES:
            self.fields["thinking"] = {"type": _ON_TYPES[switch] if enabled else "disabled"}
        elif switch == "reasoning_effort":
            self._switch_by_effort(enabled)
        elif switch == "reasoning_object":
            self.fields["reasoning"] = {"enabled": enabled}
        else:
            self._warn_unsent("enable_thinking", "this model's server has no parameter to switch thinking")

    def _switch_by_effort(self, enabled: bool) -> None:
        """Send an effort that switches thinking on or off, unless the caller's own effort is sent."""
        if "reasoning_effort" in self.fields:
            return
        efforts = self._profile.efforts
        word: str | None = "medium" if enabled else "none"
        if efforts is not None:
            word = choose_effort(_ON if enabled and _ON in efforts else str(word), efforts)
        if word is not None:
            self.fields["reasoning_effort"] = word
        elif not (enabled and self._profile.thinks_by_default):
            why = f"no effort of this model switches thinking {'on' if enabled else 'off'} (`efforts` of its profile)"
            self._warn_unsent("enable_thinking", why)

    def _write_budget(self, budget: int) -> None:
        profile = self._profile
        if "budget" in profile.effort_excludes and self._has_own_effort():
            self._warn_unsent("thinking_budget", "this model's server takes either a budget or an effort")
            return
        if profile.max_thinking_budget is not None and budget > profile.max_thinking_budget:
            budget = profile.max_thinking_budget
            path = self._paths.param("thinking_budget")
            self.warnings.append(f"{path} was lowered to {budget}, this server's maximum")
        if "budget" in profile.effort_excludes and profile.thinking_budget != "none":
            self.fields.pop("reasoning_effort", None)
        if profile.thinking_budget == "thinking_budget":
            self.fields["thinking_budget"] = budget
        elif profile.thinking_budget == "thinking_token_budget":
            self.fields["thinking_token_budget"] = budget
        elif profile.thinking_budget == "thinking_budget_tokens":
            self.fields |= {"thinking_budget_tokens": budget, "reasoning_budget_tokens": budget}
        elif profile.thinking_budget == "custom_params":
            self.fields["custom_params"] = {"thinking_budget": budget}
        elif profile.thinking_budget == "reasoning_max_tokens":
            self.fields["reasoning"] = {**self.fields.get("reasoning", {}), "max_tokens": budget}
        elif profile.thinking_budget == "google_thinking_config":
            self.fields["extra_body"] = {"google": {"thinking_config": {"thinking_budget": budget}}}
        elif profile.thinking_budget == "chat_template_kwargs":
            variables = self.fields.get("chat_template_kwargs", {})
            self.fields["chat_template_kwargs"] = {**variables, "thinking_budget": budget}
        else:
            self._warn_unsent("thinking_budget", "this model's server has no such parameter")

    def _has_own_effort(self) -> bool:
        """Whether the caller chose an effort, be it in `extra_body`."""
        extra = self._params.get("extra_body") or {}
        reasoning = extra.get("reasoning")
        inner = reasoning.get("effort") if isinstance(reasoning, dict) else None
        own = (self._params.get("reasoning_effort"), extra.get("reasoning_effort"), inner)
        return any(effort is not None for effort in own)
