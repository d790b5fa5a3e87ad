"""`Questions`: asks the guards of one request, and keeps what they have said of it."""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import NoReturn

from msgspec import Struct

from app.errors import GuardUnavailable, PolicyRefused
from app.guards.guards import Guards, GuardSet
from app.guards.memory import make_key
from app.guards.rules import GuardRule
from app.guards.verdicts import GuardError, Phase, Question, TextPart, Verdict, cut_reason

log = logging.getLogger("parley.guards")


class RequestFacts(Struct, frozen=True):
    """What guards get to know of a request."""

    request_id: str
    reply_id: str
    endpoint: str
    model: str
    key: str = ""
    team: str = ""
    user: str = ""
    """The end user of the key."""
    session: str = ""
    scope: str = ""
    """Callers with the same scope have the same placeholders, and share verdicts."""
    headers: Mapping[str, str] = {}
    traceparent: bytes | None = None


class Questions:
    def __init__(self, guards: Guards, chosen: GuardSet, facts: RequestFacts) -> None:
        self.guards = guards
        self.chosen = chosen
        self.facts = facts
        self.verdicts: dict[str, str] = {}
        """What each guard has said of the request."""
        self.values: dict[str, str] = {}
        """What services have found in the request, and its kinds."""
        self.turn = 0
        """The number of the call to the model that is admitted now, from 1."""

    async def ask(self, rule: GuardRule, parts: Sequence[TextPart], phase: Phase, *, final: bool = True) -> Verdict:
        """Raises GuardError."""
        question, began = self._make_question(rule, parts, phase, final=final), time.perf_counter()
        try:
            return await self.guards.client(rule.name).ask(question, self.facts.traceparent)
        finally:
            self.guards.observer.observe_check(rule.name, phase, time.perf_counter() - began)

    async def find_spans(
        self, rule: GuardRule, texts: Sequence[str]
    ) -> tuple[dict[str, list[tuple[int, int, str]]], GuardError | None]:
        """Return the values that Presidio finds in texts, or has found before, and why there is nothing of the others:
        the first failure."""
        memory, digest = self.guards.memory, self.guards.digest(rule)
        # Another key than that of a verdict: a guard that refuses remembers one of the same text.
        keys = {text: make_key(b"spans" + digest, "", TextPart("", "user", "text", text)) for text in texts}
        found = {text: memory.get(key) if text.strip() else [] for text, key in keys.items()}
        new = [text for text in texts if found[text] is None]
        question, failure = self._make_question(rule, (), "request"), None
        began = time.perf_counter()
        answers = await self.guards.client(rule.name).find_spans(new, question, self.facts.traceparent)
        for text, answer in zip(new, answers, strict=True):
            if isinstance(answer, GuardError):
                failure = failure or answer
            else:
                found[text] = answer
                memory.put(keys[text], answer, rule.remember_seconds, 32 * len(answer))
        if new:
            self.guards.observer.observe_check(rule.name, "request", time.perf_counter() - began)
        return {text: spans for text, spans in found.items() if spans is not None}, failure

    def _make_question(
        self, rule: GuardRule, parts: Sequence[TextPart], phase: Phase, *, final: bool = True
    ) -> Question:
        facts = self.facts
        return Question(
            phase,
            tuple(parts),
            facts.model,
            facts.request_id,
            facts.reply_id,
            facts.session,
            facts.endpoint,
            facts.key,
            facts.team,
            facts.user,
            self.turn,
            final,
            {name: value for name, value in facts.headers.items() if name in rule.forward_headers},
        )

    def note(self, rule: GuardRule, verdict: str) -> None:
        """Keep and count what a guard has said of the request."""
        if self.verdicts.get(rule.name) not in ("failed", "withhold"):
            self.verdicts[rule.name] = verdict
        self.guards.count_check(rule.name, "request", verdict)

    def refuse(self, guard: str, reason: str, category: str | None) -> NoReturn:
        """Raises PolicyRefused."""
        self.verdicts[guard] = "reject"
        self.guards.count_check(guard, "request", "reject")
        log.info("request %s: the guard %s has refused it, category %s", self.facts.request_id, guard, category)
        raise PolicyRefused(guard, cut_reason(reason), category)

    def fail(self, rule: GuardRule, phase: Phase, error: GuardError) -> None:
        """Raises GuardUnavailable, unless the operator has chosen to go on."""
        self.guards.count_check(rule.name, phase, "failed")
        self.verdicts[rule.name] = "failed"
        log.error("request %s: the guard %s gave no verdict: %s", self.facts.request_id, rule.name, error)
        if not rule.passes_on_failure and not rule.observes:
            raise GuardUnavailable(rule.name, str(error))
