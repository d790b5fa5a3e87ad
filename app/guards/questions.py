"""`Questions`: asks the guards of one request, and keeps what they have said of it."""

import logging
import time
from collections.abc import Sequence
from typing import NoReturn

from app.errors import GuardUnavailable, PolicyRefused
from app.guards.guards import GuardObserver, Guards, GuardSet
from app.guards.memory import make_key
from app.guards.parts import show_arguments
from app.guards.rules import GuardRule
from app.guards.verdicts import GuardError, Phase, Question, RequestFacts, TextPart, Verdict, cut_reason
from app.observe.trace_context import GuardSpan, RequestTrace, new_span_id

log = logging.getLogger("parley.guards")


class Check:
    """One check by a service, while it runs: the trace that the service gets, and its span."""

    def __init__(self, facts: RequestFacts, guard: str, phase: Phase) -> None:
        self._trace = facts.trace
        self._guard = guard
        self._phase = phase
        self._span_id = new_span_id() if isinstance(self._trace, RequestTrace) else 0
        self._start_ns = time.time_ns()
        self._began = time.perf_counter()

    def write_traceparent(self) -> bytes | None:
        if isinstance(self._trace, RequestTrace):
            return self._trace.write_traceparent(self._span_id)
        headers = () if self._trace is None else self._trace.headers
        return next((value for name, value in headers if name == b"traceparent"), None)

    def end(self, observer: GuardObserver, *, failed: bool) -> None:
        observer.observe_check(self._guard, self._phase, time.perf_counter() - self._began)
        trace = self._trace
        if isinstance(trace, RequestTrace) and trace.sampled:
            trace.guards.append(
                GuardSpan(self._span_id, self._guard, self._phase, failed, self._start_ns, time.time_ns())
            )


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
        question = self._make_question(rule, [*map(show_arguments, parts)], phase, final=final)
        check = Check(self.facts, rule.name, phase)
        failed = True
        try:
            verdict = await self.guards.client(rule.name).ask(question, check.write_traceparent())
            failed = False
            return verdict
        finally:
            check.end(self.guards.observer, failed=failed)

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
        check = Check(self.facts, rule.name, "request")
        answers = await self.guards.client(rule.name).find_spans(new, question, check.write_traceparent())
        for text, answer in zip(new, answers, strict=True):
            if isinstance(answer, GuardError):
                failure = failure or answer
            else:
                found[text] = answer
                memory.put(keys[text], answer, rule.remember_seconds, 32 * len(answer))
        if new:
            check.end(self.guards.observer, failed=failure is not None)
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

    def refuse(self, guard: str, reason: str, category: str | None, place: str) -> NoReturn:
        """Raises PolicyRefused. `place` is that of the part that is refused."""
        self.verdicts[guard] = "reject"
        self.guards.count_check(guard, "request", "reject")
        id_ = self.facts.request_id
        log.info("request %s: the guard %s has refused it for %s, category %s", id_, guard, place, category)
        log.debug("request %s: the reason of the guard %s: %s", id_, guard, cut_reason(reason))
        raise PolicyRefused(guard, cut_reason(reason), category)

    def fail(self, rule: GuardRule, phase: Phase, error: GuardError) -> None:
        """Raises GuardUnavailable, unless the operator has chosen to go on."""
        self.guards.count_check(rule.name, phase, "failed")
        self.verdicts[rule.name] = "failed"
        log.error("request %s: the guard %s gave no verdict: %s", self.facts.request_id, rule.name, error)
        if not rule.passes_on_failure and not rule.observes:
            raise GuardUnavailable(rule.name, str(error))
