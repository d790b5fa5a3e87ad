"""`RequestJudge`: asks services about a conversation, and applies what they say.

A text that is new and is refused refuses the request. A result that is refused, and anything older, is withheld from
the model, in this request and in all later ones: so a refused text does not block a session for good.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from app.chat.known_conversation import KnownConversation
from app.chat.messages import ChatRequest, Message
from app.guards.memory import PASSED, SUSPECTED, Passed, Rejected, Remembered, Replaced, Suspected, make_key
from app.guards.parts import find_last_answer, find_question, list_parts, replace_texts, write_withheld
from app.guards.questions import Questions
from app.guards.rules import GuardRule
from app.guards.services import SERVICES
from app.guards.verdicts import (
    AskedPart,
    GuardError,
    PartKind,
    Place,
    Reject,
    Replace,
    TextPart,
    Verdict,
    cut_category,
    cut_reason,
)

log = logging.getLogger("parley.guards")

MAX_SINGLE_QUESTIONS = 32
"""So many parts of a group are asked again one by one, to find the one that is refused."""


Outcomes: TypeAlias = tuple[dict[Place, Remembered], GuardError | None]
"""What is known of parts, and the first failure: there is nothing of some then."""


def split_groups(asked: Sequence[AskedPart]) -> list[list[AskedPart]]:
    groups = [[one for one in asked if one.part.group == name] for name in "ABC"]
    return [group for group in groups if group]


class RequestJudge:
    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._guards = questions.guards
        self._memory = questions.guards.memory
        self._facts = questions.facts

    async def judge(
        self,
        request: ChatRequest,
        messages: Sequence[Message],
        *,
        sees_original: bool,
        text_kind: PartKind = "text",
        of_session: bool = True,
    ) -> Sequence[Message]:
        """Return the messages as the guards let them pass. `of_session`: a later request has them again. Raises
        PolicyRefused and GuardUnavailable."""
        for rule in self._questions.chosen.judging:
            if rule.sees_original is not sees_original:
                continue
            if rule.observes:
                self._guards.run_aside(self._observe(rule, request, messages, text_kind))
            elif rule.context == "all":
                asked = self._list_asked(rule, request, messages, 0, text_kind)
                messages = self._apply(rule, messages, 0, asked, await self._ask_whole(rule, asked))
            else:
                messages = await self._judge_new(rule, request, messages, text_kind, of_session=of_session)
        return messages

    def has_passed(self, request: ChatRequest, masked: Sequence[Message]) -> bool:
        """Whether each part has passed before, so that no guard need be asked about a request."""
        for rule in self._questions.chosen.judging:
            messages = request.messages if rule.sees_original else masked
            asked = [] if rule.observes else self._list_asked(rule, request, messages, 0, "text")
            known = [self._memory.get(one.key) for one in asked if one.part.text.strip()]
            if known and (rule.context == "all" or not all(isinstance(outcome, Passed) for outcome in known)):
                return False
        return True

    async def _judge_new(
        self,
        rule: GuardRule,
        request: ChatRequest,
        messages: Sequence[Message],
        text_kind: PartKind,
        *,
        of_session: bool,
    ) -> Sequence[Message]:
        known, now = request.known, self._memory.clock()
        what = ("judged", self._guards.digest(rule), self._facts.scope)
        before = _find_judged(known, what, messages, now)
        start = len(before)
        rest = messages[start:]
        asked = self._list_asked(rule, request, messages, start, text_kind)
        if of_session:
            asked = self._move_refused(asked, messages)
        outcomes = await self._find_outcomes(rule, asked)
        if of_session:
            self._remember_last(rule, asked, outcomes[0], messages)
        now_judged = self._apply(rule, rest, start, asked, outcomes)
        judged = (*before, *now_judged)
        if known is not None and outcomes[1] is None:
            known.keep(what, messages, (judged, now + rule.remember_seconds))
        return judged if before or now_judged is not rest else messages

    def _list_asked(
        self,
        rule: GuardRule,
        request: ChatRequest,
        messages: Sequence[Message],
        start: int,
        text_kind: PartKind,
    ) -> list[AskedPart]:
        """Return the parts that a guard is asked about, of the messages from `start` on."""
        digest, last_answer = self._guards.digest(rule), find_last_answer(messages)
        return [
            AskedPart(place, part, make_key(digest, self._facts.scope, part))
            for place, part in list_parts(messages[start:], start, last_answer, rule, request.tools, text_kind)
        ]

    def _move_refused(self, asked: list[AskedPart], messages: Sequence[Message]) -> list[AskedPart]:
        """Return the parts, of which texts that were refused in an earlier request, and that are not the newest text of
        the user, count as older ones: a client may have no answer to put behind a request that was refused. Some put
        what the user says then into the same message."""
        refused = [
            number
            for number, one in enumerate(asked)
            if one.part.group == "A"
            and one.part.role == "user"
            and isinstance(self._memory.get(one.key), Rejected | Suspected)
        ]
        if not refused:
            return asked
        question = find_question(messages)
        last = _find_last_text(asked, question)

        def is_older(one: AskedPart) -> bool:
            if one.place.message < question:
                return True
            if last is None or one.place.message > question or one.place.part >= last.place.part:
                return False
            known: bytes | None = self._memory.get(_make_last_key(one))
            return known is not None and known != last.key

        moved = list(asked)
        for number in refused:
            if is_older(asked[number]):
                moved[number] = replace(asked[number], part=replace(asked[number].part, group="C"))
        return moved

    def _remember_last(
        self, rule: GuardRule, asked: Sequence[AskedPart], found: dict[Place, Remembered], messages: Sequence[Message]
    ) -> None:
        """Remember which text was the last of the message in which another one is refused."""
        refused = [one for one in asked if one.part.group == "A" and isinstance(found.get(one.place), Rejected)]
        last = _find_last_text(asked, find_question(messages)) if refused else None
        if last is not None:
            for one in refused:
                self._memory.put(_make_last_key(one), last.key, rule.remember_seconds)

    # What is done.

    def _apply(
        self, rule: GuardRule, messages: Sequence[Message], start: int, asked: Sequence[AskedPart], outcomes: Outcomes
    ) -> Sequence[Message]:
        """Return the messages, of which the first has the number `start`, as the guard lets them pass. What it has said
        counts, also if it has failed for others. Raises PolicyRefused and GuardUnavailable."""
        found, failure = outcomes
        new: dict[Place, str] = {}
        word = "pass"
        for one in asked:
            outcome = found.get(one.place, PASSED)
            if isinstance(outcome, Rejected):
                if _refuses(rule, one.part):
                    self._questions.refuse(rule.name, outcome.reason, outcome.category, one.part.id)
                word = "withhold"
                new[one.place] = self._withhold(rule, one.part, outcome)
            elif isinstance(outcome, Replaced):
                word = "replace" if word == "pass" else word
                new[one.place] = outcome.text
        if failure is not None:
            self._questions.fail(rule, "request", failure)
        elif asked or rule.context == "new":
            self._questions.note(rule, word)
        return replace_texts(messages, start, new) if new else messages

    def _withhold(self, rule: GuardRule, part: TextPart, outcome: Rejected) -> str:
        self._guards.count_check(rule.name, "request", "withhold")
        id_ = self._facts.request_id
        text = "request %s: the guard %s has refused %s, which is withheld, category %s"
        log.info(text, id_, rule.name, part.id, outcome.category)
        log.debug("request %s: the reason of the guard %s: %s", id_, rule.name, cut_reason(outcome.reason))
        return write_withheld(part, rule.name, cut_reason(outcome.reason))

    async def _observe(
        self, rule: GuardRule, request: ChatRequest, messages: Sequence[Message], text_kind: PartKind
    ) -> None:
        """Ask a guard that changes nothing, and log what it would have done."""
        try:
            asked = self._list_asked(rule, request, messages, 0, text_kind)
            ask = self._ask_whole if rule.context == "all" else self._find_outcomes
            found, failure = await ask(rule, asked)
            self._log_observed(rule, asked, found, failure)
        except Exception:
            log.exception("defect while a guard observed a request")

    def _log_observed(
        self, rule: GuardRule, asked: Sequence[AskedPart], found: dict[Place, Remembered], failure: GuardError | None
    ) -> None:
        changed = [one.part for one in asked if not isinstance(found.get(one.place, PASSED), Passed)]
        rejected = [one.part for one in asked if isinstance(found.get(one.place), Rejected)]
        id_, name = self._facts.request_id, rule.name
        if any(_refuses(rule, part) for part in rejected):
            log.info("request %s: the guard %s would have refused it", id_, name)
            self._guards.count_check(name, "request", "reject")
        elif changed:
            log.info("request %s: the guard %s would have changed %d parts of it", id_, name, len(changed))
            self._guards.count_check(name, "request", "withhold" if rejected else "replace")
        elif failure is None:
            self._guards.count_check(name, "request", "pass")
        if failure is not None:
            self._questions.fail(rule, "request", failure)

    # What is asked.

    async def _ask_whole(self, rule: GuardRule, asked: Sequence[AskedPart]) -> Outcomes:
        """Ask about the whole conversation. Nothing of it is remembered."""
        if not asked:
            return {}, None
        try:
            verdict = await self._questions.ask(rule, [one.part for one in asked], "request")
        except GuardError as error:
            return {}, error
        return {one.place: _read_outcome(one.part, verdict) for one in asked}, None

    async def _find_outcomes(self, rule: GuardRule, asked: Sequence[AskedPart]) -> Outcomes:
        """Return what is remembered of parts, or what the guard says now."""
        outcomes: dict[Place, Remembered] = {}
        new: list[AskedPart] = []
        alone: list[AskedPart] = []
        for one in asked:
            remembered = self._memory.get(one.key)
            if isinstance(remembered, Suspected) and one.part.group == "C":
                alone.append(one)
            elif remembered is not None and not isinstance(remembered, Suspected):
                outcomes[one.place] = remembered
            elif one.part.text.strip():
                new.append(one)
        if any(isinstance(outcomes.get(one.place), Rejected) and _refuses(rule, one.part) for one in asked):
            return outcomes, None  # refused again without a question
        if not new and not alone:
            if asked:
                self._guards.count_check(rule.name, "request", "remembered")
            return outcomes, None
        groups = split_groups(new) if SERVICES[rule.api].asks_groups or not new else [new]
        groups += [[one] for one in alone] if len(alone) <= MAX_SINGLE_QUESTIONS else [alone]
        found, failure = await _gather([self._ask_group(rule, group) for group in groups])
        return outcomes | found, failure

    async def _ask_group(self, rule: GuardRule, group: Sequence[AskedPart]) -> Outcomes:
        """Ask about one group, and again part by part if it is not known which of them is refused."""
        try:
            verdict = await self._questions.ask(rule, [one.part for one in group], "request")
        except GuardError as error:
            return {}, error
        if isinstance(verdict, Reject) and verdict.ids is None and len(group) > 1:
            apart = split_groups(group)
            if len(apart) == 1 and group[0].part.group == "A":
                for one in group:
                    self._memory.put(one.key, SUSPECTED, rule.remember_seconds)
                return {one.place: _read_outcome(one.part, verdict) for one in group}, None
            if len(apart) == 1:
                apart = [[one] for one in group] if len(group) <= MAX_SINGLE_QUESTIONS else []
            if apart:
                return await _gather([self._ask_group(rule, part) for part in apart])
        return {one.place: self._remember(rule, one, verdict) for one in group}, None

    def _remember(self, rule: GuardRule, one: AskedPart, verdict: Verdict) -> Remembered:
        outcome = _read_outcome(one.part, verdict)
        size = len(outcome.text) if isinstance(outcome, Replaced) else 0
        self._memory.put(one.key, outcome, rule.remember_seconds, size)
        return outcome


def _find_last_text(asked: Sequence[AskedPart], question: int) -> AskedPart | None:
    """Return the last text of the message that has the newest text of the user."""
    return next((one for one in reversed(asked) if one.place.message == question and one.part.kind == "text"), None)


def _make_last_key(one: AskedPart) -> bytes:
    """Return the key under which the last text is remembered of the message in which this one was refused."""
    return b"last" + one.key


def _find_judged(
    known: KnownConversation | None, what: tuple[Any, ...], messages: Sequence[Message], now: float
) -> tuple[Message, ...]:
    """Return the beginning of a conversation as the guard has let it pass in an earlier request."""
    if known is None:
        return ()
    kept, count = known.find_common(what, messages)
    judged: tuple[Message, ...] = () if kept is None or kept[1] < now else kept[0][:count]
    return judged


def _refuses(rule: GuardRule, part: TextPart) -> bool:
    """Whether the request is refused if this part is."""
    return part.group == "A" or rule.context == "all" or (part.group == "B" and rule.refuses_results)


def _read_outcome(part: TextPart, verdict: Verdict) -> Remembered:
    if isinstance(verdict, Replace) and part.id in verdict.texts:
        return Replaced(verdict.texts[part.id])
    if isinstance(verdict, Reject) and (verdict.ids is None or part.id in verdict.ids):
        return Rejected(cut_reason(verdict.reason), cut_category(verdict.category))
    return PASSED


async def _gather(asked: Sequence[Coroutine[Any, Any, Outcomes]]) -> Outcomes:
    """Wait for all answers."""
    if len(asked) == 1:
        return await asked[0]
    outcomes: dict[Place, Remembered] = {}
    failure: GuardError | None = None
    for found, error in await asyncio.gather(*asked):
        outcomes |= found
        failure = failure or error
    return outcomes, failure
