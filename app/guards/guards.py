"""`Guards`: all guards of a configuration, and which of them are for a request."""

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from app.guards.client import GuardClient
from app.guards.detectors import DETECTORS, Find, make_pattern
from app.guards.masking import FindSpans
from app.guards.memory import VerdictMemory
from app.guards.rules import SECRETS, GuardRule, MaskingRule
from app.guards.sealed_replies import ResumedReply, unseal_reply
from app.guards.secret_rules import make_rules_find
from app.guards.spans import Span, SpanRule
from app.upstream.http.transport import UpstreamTransport

log = logging.getLogger("parley.guards")

MAX_SELECTED = 4096
"""Callers and models whose guards are remembered."""
NOTICE = (
    "Words such as [EMAIL_ABCDEFGH] stand for values that are kept from you. Write such a word exactly as it is where "
    "you mean its value; it is replaced by the value outside."
)


class GuardObserver(Protocol):
    """Counts what guards do."""

    def count_check(self, guard: str, phase: str, verdict: str) -> None: ...

    def observe_check(self, guard: str, phase: str, seconds: float) -> None:
        """A service has answered, or failed, after this time."""

    def count_masked(self, kind: str, count: int) -> None: ...

    def count_placeholders(self, outcome: str, count: int) -> None:
        """Placeholders in a reply were `restored`, or are `unknown`."""


class NoObserver:
    def count_check(self, guard: str, phase: str, verdict: str) -> None: ...

    def observe_check(self, guard: str, phase: str, seconds: float) -> None: ...

    def count_masked(self, kind: str, count: int) -> None: ...

    def count_placeholders(self, outcome: str, count: int) -> None: ...


class GuardSet(Struct, frozen=True, eq=False):
    """The guards for requests to some models by a caller."""

    rules: tuple[GuardRule, ...]
    masking: MaskingRule
    finding: tuple[GuardRule, ...]
    """Those with detectors."""
    analyzing: tuple[GuardRule, ...]
    """Those that ask Presidio."""
    judging: tuple[GuardRule, ...]
    """Those that judge requests."""
    replying: tuple[GuardRule, ...]
    """Those for which replies wait."""
    watching: tuple[GuardRule, ...]
    """Those that only observe replies."""
    digest: bytes
    """A hash of what decides on requests."""
    reply_digest: str
    """A hash of what decides on replies."""

    masks: bool
    enforces: bool
    enforces_requests: bool
    must_translate: bool
    """Whether the client never gets the server's own events, and the server not the client's own body."""


class Guards:
    """Those of one configuration, in one event loop."""

    def __init__(
        self,
        rules: Sequence[GuardRule],
        masking: MaskingRule,
        transport: UpstreamTransport,
        previous: "Guards | None" = None,
    ) -> None:
        """`previous` are those that a reload replaces: what they have said stays known."""
        # Built-in ones first: what is masked is seen by no service.
        self._rules = tuple(sorted(rules, key=lambda rule: not rule.detectors))
        self._masking = masking
        self._digests = {rule.name: rule.make_digest() for rule in self._rules}
        self._sets: dict[tuple[str, ...], GuardSet | None] = {(): None}
        """By the names of their guards."""
        self._selected: dict[tuple[tuple[str, ...], str], GuardSet | None] = {}
        """By models and keys."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._clients = {rule.name: GuardClient(rule, transport) for rule in self._rules if rule.url}
        self._finders = _make_finders([rule for rule in self._rules if rule.detectors], masking)
        self.memory: VerdictMemory = VerdictMemory() if previous is None else previous.memory
        self.observer: GuardObserver = NoObserver() if previous is None else previous.observer
        """Set by those who count."""
        self.verdicts: Counter[tuple[str, str]] = Counter() if previous is None else previous.verdicts
        """How many verdicts of each guard there were since the process began, by its name and the verdict."""

    def select(self, models: tuple[str, ...], key: str) -> GuardSet | None:
        """Return the guards for requests that one of these models may answer; None if there are none."""
        asked = (models, key)
        if asked not in self._selected:
            chosen = [rule for rule in self._rules if rule.applies(models, key)]
            names = tuple([rule.name for rule in chosen])
            if names not in self._sets:
                self._sets[names] = make_set(chosen, self._masking)
            if len(self._selected) >= MAX_SELECTED:
                self._selected.clear()
            self._selected[asked] = self._sets[names]
        return self._selected[asked]

    def unseal_reply(self, about: str, text: str) -> ResumedReply | None:
        """Return what `RequestGuard.seal` has sealed in a gateway with the same key; None for anything else."""
        sealed = unseal_reply(self._masking.key, about, text)
        return None if sealed is None else ResumedReply(text, sealed, self.observer.count_placeholders)

    def set_key(self, key: bytes) -> None:
        """Use another key of placeholders from now on."""
        self._masking = replace(self._masking, key=key)
        self._sets = {(): None}
        self._selected.clear()

    def digest(self, rule: GuardRule) -> bytes:
        """Return a hash of what decides on the verdicts of a guard."""
        return self._digests[rule.name]

    def client(self, name: str) -> GuardClient:
        return self._clients[name]

    def count_check(self, guard: str, phase: str, verdict: str) -> None:
        self.verdicts[guard, verdict] += 1
        self.observer.count_check(guard, phase, verdict)

    def make_find(self, rules: Sequence[GuardRule]) -> FindSpans:
        """Return what searches a text with the detectors of these guards."""
        return join_finders(
            [(find, SpanRule(rule.name, rule.action)) for rule in rules for find in self._finders[rule.name]]
        )

    def run_aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Run what nothing waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def make_set(rules: Sequence[GuardRule], masking: MaskingRule) -> GuardSet:
    digests = b"".join(rule.make_digest() for rule in rules)
    replying = tuple([rule for rule in rules if rule.checks_replies])
    masks = any(rule.masks for rule in rules)
    finds = masks or any(rule.detectors for rule in replying)
    finding = tuple([rule for rule in rules if rule.detectors and "request" in rule.phases])
    analyzing = tuple([rule for rule in rules if rule.api == "presidio" and rule.url and "request" in rule.phases])
    judging = tuple([rule for rule in rules if not rule.finds_values and "request" in rule.phases])
    decides = b"".join(rule.make_digest() for rule in replying) + (masking.make_digest() if finds else b"")
    return GuardSet(
        tuple(rules),
        masking,
        finding=finding,
        analyzing=analyzing,
        judging=judging,
        replying=replying,
        watching=tuple([rule for rule in rules if "reply" in rule.phases and not rule.enforces and rule.url]),
        digest=_hash(digests + masking.make_digest()),
        reply_digest=_hash(decides).hex() if decides else "",
        masks=masks,
        enforces=any(rule.enforces for rule in rules),
        enforces_requests=any(rule.enforces for rule in (*finding, *analyzing, *judging)),
        must_translate=bool(replying) or any(rule.finds_values and rule.enforces for rule in rules),
    )


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _make_finders(rules: Sequence[GuardRule], masking: MaskingRule) -> dict[str, list[Find]]:
    """Return the detectors of each guard by its name; names that are none are patterns."""
    named = {name for rule in rules for name in rule.detectors}
    finders = {
        name: [DETECTORS[name]] if name in DETECTORS else [make_pattern(name.upper(), masking.patterns[name])]
        for name in named
    }
    if SECRETS in named and masking.secret_rules:
        finders[SECRETS].append(make_rules_find(masking.secret_rules))
    return {rule.name: [find for name in rule.detectors for find in finders[name]] for rule in rules}


def join_finders(finders: Sequence[tuple[Find, SpanRule]]) -> FindSpans:
    def find(text: str) -> list[tuple[Span, SpanRule]]:
        return [(span, rule) for one, rule in finders for span in one(text)]

    return find
