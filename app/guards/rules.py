"""What is configured of guards and of masking, as the guards use it."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from app.guards.verdicts import Phase
from app.upstream.http.options import DEFAULT_OPTIONS, ConnectionOptions
from app.validation.wildcards import match_any_wildcard

ServiceName: TypeAlias = Literal["litellm", "agentgateway", "parley", "presidio", "moderation"]
Action: TypeAlias = Literal["mask", "redact", "reject", "observe"]
Scope: TypeAlias = Literal["caller", "session", "shared"]


SECRETS = "secrets"
DETECTOR_NAMES = ("email", "card", "iban", "phone", "ip", SECRETS)


class GuardRule(Struct, frozen=True):
    """One guard: with `detectors`, or with a `url`."""

    name: str
    detectors: tuple[str, ...] = ()
    action: Action = "mask"
    url: str = ""
    api: ServiceName = "parley"
    phases: tuple[Phase, ...] = ("request", "reply")
    stream: Literal["block", "window"] = "block"
    reasoning: Literal["check", "withhold", "skip"] = "check"
    context: Literal["new", "all"] = "new"
    observes: bool = False
    passes_on_failure: bool = False
    refuses_results: bool = False
    timeout_seconds: float = 5.0
    params: Mapping[str, Any] = {}
    headers: tuple[tuple[bytes, bytes], ...] = ()
    forward_headers: tuple[str, ...] = ()
    sends_images: bool = False
    sends_tools: bool = False
    sees_original: bool = False
    window_characters: int = 400
    overlap_characters: int = 100
    max_bytes: int = 8 * 1024 * 1024
    max_concurrent: int = 64
    remember_seconds: float = 3600.0
    keys: tuple[str, ...] = ("*",)
    models: tuple[str, ...] = ("*",)
    connections: ConnectionOptions = DEFAULT_OPTIONS

    @property
    def finds_values(self) -> bool:
        """Whether it finds values in texts, instead of judging them."""
        return bool(self.detectors) or self.api == "presidio"

    @property
    def enforces(self) -> bool:
        return not self.observes and not (self.finds_values and self.action == "observe")

    @property
    def checks_replies(self) -> bool:
        """Whether replies wait for it. A guard that masks restores them instead."""
        return "reply" in self.phases and self.enforces and not (self.finds_values and self.action == "mask")

    @property
    def masks(self) -> bool:
        return self.finds_values and self.action == "mask" and self.enforces

    def applies(self, models: tuple[str, ...], key: str) -> bool:
        return match_any_wildcard(self.keys, key) and any(match_any_wildcard(self.models, name) for name in models)

    def make_digest(self) -> bytes:
        """Return a hash of what decides on its verdicts."""
        decides = (
            *(self.name, self.detectors, self.action, self.url, self.api, self.phases, self.reasoning),
            *(dict(self.params), self.sees_original, self.refuses_results, self.sends_images, self.observes),
            self.sends_tools,
        )
        return hashlib.blake2b(msgspec.json.encode(decides), digest_size=16).digest()


class WindowRules(Struct, frozen=True):
    """How texts are cut into windows; `characters` 0: not at all."""

    characters: int = 0
    overlap: int = 0
    withholds_reasoning: bool = False


def make_window_rules(rules: Sequence[GuardRule]) -> WindowRules:
    withholds = any(rule.reasoning == "withhold" for rule in rules)
    if not rules or any(rule.stream == "block" for rule in rules):
        return WindowRules(withholds_reasoning=withholds)
    sizes, overlaps = [rule.window_characters for rule in rules], [rule.overlap_characters for rule in rules]
    return WindowRules(max(sizes), max(overlaps), withholds)


class Exempted(Struct, frozen=True):
    """What a rule finds, and yet is no secret: what has one of the words, or where an expression matches."""

    expressions: tuple[str, ...]
    target: Literal["secret", "match", "line"]
    """What the expressions are searched in."""
    words: tuple[str, ...]
    """In small letters."""
    needs_both: bool


class SecretRule(Struct, frozen=True):
    """One rule of `masking.rules_file`."""

    id: str
    expression: str
    group: int = 0
    """Of the value; 0: the first that is not empty, else the whole match."""
    entropy: float = 0.0
    """A value has more bits for each character."""
    keywords: tuple[str, ...] = ()
    """In small letters. A text without any of them is not searched."""
    exempted: tuple[Exempted, ...] = ()


class MaskingRule(Struct, frozen=True):
    key: bytes
    scope: Scope = "caller"
    restore: tuple[str, ...] = ("text", "reasoning", "arguments")
    notice: bool = True
    ignore: tuple[str, ...] = ()
    patterns: Mapping[str, str] = {}
    secret_rules: tuple[SecretRule, ...] = ()
    """Further ones of the detector `secrets`."""

    def make_digest(self) -> bytes:
        """Return a hash of what decides on the values that are found, and on their placeholders."""
        decides = self.key.hex(), dict(self.patterns), self.ignore, self.secret_rules
        return hashlib.blake2b(msgspec.json.encode(decides), digest_size=16).digest()

    def is_ignored(self, value: str) -> bool:
        return match_any_wildcard(self.ignore, value)
