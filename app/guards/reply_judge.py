"""`ReplyJudge`: what guards say of the parts of a reply."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from app.guards.masking import FindSpans, ValueMasker
from app.guards.memory import PASSED, make_key
from app.guards.parts import write_withheld
from app.guards.placeholders import Placeholders
from app.guards.questions import Questions
from app.guards.restoring import restore_text
from app.guards.rules import GuardRule
from app.guards.spans import Span, SpanRule
from app.guards.verdicts import (
    GuardError,
    JudgedReply,
    Pass,
    Reject,
    Replace,
    TextPart,
    Verdict,
    cut_category,
    cut_reason,
)

log = logging.getLogger("parley.guards")


class ReplyJudge:
    def __init__(
        self, questions: Questions, placeholders: Placeholders, make_masker: Callable[[], ValueMasker]
    ) -> None:
        """`make_masker` makes one with the detectors of the request."""
        self._questions = questions
        self._guards = questions.guards
        self._placeholders = placeholders
        self._make_masker = make_masker

    async def judge(self, parts: Sequence[TextPart], *, final: bool, released: Mapping[str, str]) -> JudgedReply:
        """Return which part of a reply is passed on. `released` is what was released before of parts, by their ids.
        Raises GuardUnavailable."""
        texts: dict[str, str] = {}
        holdback = 0
        failed: list[str] = []
        put_in: set[str] = set()
        """The parts that have texts of services."""
        replying = self._questions.chosen.replying
        again = [rule for rule in replying if rule.detectors]
        for number, rule in enumerate((*replying, *again)):
            asked = parts if number < len(replying) else [part for part in parts if part.id in put_in]
            current = [replace(part, text=texts.get(part.id, part.text)) for part in asked] if texts else asked
            shown = _select(rule, current)
            if not shown:
                continue
            if rule.sees_original:
                shown = [self._restore(part) for part in shown]
            try:
                verdict = (
                    self._find_locally(rule, shown, {id_: len(text) for id_, text in released.items()})
                    if rule.detectors
                    else await self._questions.ask(rule, shown, "reply", final=final)
                )
            except GuardError as error:
                self._questions.fail(rule, "reply", error)
                failed.append(rule.name)
                continue
            if isinstance(verdict, Reject):
                self._guards.count_check(rule.name, "reply", "reject")
                self._questions.verdicts[rule.name] = "reject"
                id_ = self._questions.facts.request_id
                place = ", ".join(verdict.ids or [part.id for part in shown])
                text = "request %s: the guard %s has refused the reply for %s, category %s"
                log.info(text, id_, rule.name, place, cut_category(verdict.category))
                log.debug("request %s: the reason of the guard %s: %s", id_, rule.name, cut_reason(verdict.reason))
                return JudgedReply(refused=(rule.name, cut_reason(verdict.reason), cut_category(verdict.category)))
            holdback = max(holdback, verdict.holdback)
            new = self._take_replacements(rule, shown, verdict) if isinstance(verdict, Replace) else {}
            if not all(new.get(id_, text).startswith(text) for id_, text in released.items()):
                self._questions.fail(rule, "reply", GuardError("it replaces a text that was released before"))
                failed.append(rule.name)
                continue
            self._guards.count_check(rule.name, "reply", "replace" if new else "pass")
            texts |= new
            put_in.update(new if rule.url else ())
        return JudgedReply(texts, holdback, failed=tuple(failed))

    def _restore(self, part: TextPart) -> TextPart:
        return replace(part, text=restore_text(part.text, self._placeholders, in_json=part.kind == "arguments"))

    def _take_replacements(self, rule: GuardRule, shown: Sequence[TextPart], verdict: Replace) -> dict[str, str]:
        new = {part.id: verdict.texts[part.id] for part in shown if part.id in verdict.texts}
        if rule.sees_original:
            masker = self._make_masker()
            masker.words.update(self._placeholders.words)
            kinds = {part.id: part.kind for part in shown}
            new = {
                id_: masker.mask_arguments(text, of_model=True).text
                if kinds[id_] == "arguments"
                else masker.mask_known(text)
                for id_, text in new.items()
            }
        return new

    def _find_locally(self, rule: GuardRule, parts: Sequence[TextPart], released: Mapping[str, int]) -> Verdict:
        """`released`: how many characters at the beginning of a part the client has."""
        ignored = self._questions.chosen.masking.is_ignored
        find = self._guards.make_find([rule])
        texts: dict[str, str] = {}
        for part in parts:
            masker = ValueMasker(_find_behind(find, released.get(part.id, 0)), self._placeholders, ignored)
            found = masker.mask(part.text)
            refused = found.refused or (masker.mask(part.name).refused if part.name else None)
            if part.kind == "arguments":  # its strings are searched behind their escapes
                found = masker.mask_arguments(part.text, of_model=False)
            refused = refused or found.refused
            if refused is not None:
                return Reject(refused.reason, refused.kind.lower())
            if found.text != part.text:
                texts[part.id] = found.text
        return Replace(texts) if texts else Pass()

    def clean_message(self, message: str) -> str:
        """Return the words of a failure, which may be those of a model server, as detectors let them pass."""
        for rule in self._questions.chosen.replying:
            part = TextPart("error", "assistant", "text", message)
            verdict = self._find_locally(rule, [part], {}) if rule.detectors else Pass()
            if isinstance(verdict, Reject):
                return write_withheld(part, rule.name, cut_reason(verdict.reason))
            message = verdict.texts.get(part.id, message) if isinstance(verdict, Replace) else message
        return message

    async def observe(self, parts: Sequence[TextPart]) -> None:
        """Ask the guards that only observe replies."""
        for rule in self._questions.chosen.watching:
            try:
                verdict = await self._questions.ask(rule, _select(rule, parts), "reply")
                self._guards.count_check(rule.name, "reply", type(verdict).__name__.lower())
            except GuardError as error:
                self._guards.count_check(rule.name, "reply", "failed")
                id_ = self._questions.facts.request_id
                log.error("request %s: the guard %s gave no verdict: %s", id_, rule.name, error)
            except Exception:
                log.exception("defect while a guard observed a reply")

    def remember(self, parts: Sequence[TextPart], failed: Collection[str]) -> None:
        """Remember that parts of a reply have passed, which come back as history; not for guards that have failed."""
        chosen, scope = self._questions.chosen, self._questions.facts.scope
        for rule in chosen.replying:
            if rule.url and rule in chosen.judging and rule.context == "new" and rule.name not in failed:
                digest = self._guards.digest(rule)
                for part in _select(rule, parts):
                    self._guards.memory.put(make_key(digest, scope, part), PASSED, rule.remember_seconds)


def _find_behind(find: FindSpans, place: int) -> FindSpans:
    """Return what finds the values of a text, or what is left of them, behind a place."""
    if not place:
        return find

    def find_rest(text: str) -> list[tuple[Span, SpanRule]]:
        return [(replace(span, start=max(span.start, place)), rule) for span, rule in find(text) if span.end > place]

    return find_rest


def _select(rule: GuardRule, parts: Sequence[TextPart]) -> list[TextPart]:
    return [part for part in parts if part.kind != "reasoning" or rule.reasoning == "check"]
