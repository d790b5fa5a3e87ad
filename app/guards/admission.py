"""`RequestGuard`: admits one request, and watches its reply.

The order: guards that see originals, then masking, then all others, which see masked texts. A text that is new and is
refused refuses the request. A result that is refused, and anything older, is withheld from the model, in this request
and in all later ones: so a refused text does not block a session for good.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from operator import is_
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.chat.admitted import Admitted, mark_admitted
from app.chat.attachments import Attachment, FileText, Unreadable
from app.chat.events import Fault
from app.chat.known_conversation import KnownConversation, find_end
from app.chat.messages import ChatRequest, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from app.chat.stage import Pipe, Stage
from app.chat.stream import Reply
from app.endpoints.body import CONTENT_FIELDS
from app.errors import GuardUnavailable, InvalidInput, ParleyError, PolicyRefused, Unsupported
from app.guards.detectors import Span
from app.guards.guards import NOTICE, Guards, GuardSet
from app.guards.masking import FindSpans, Refused, SpanRule, ValueMasker, find_masked, mask_conversation, mask_quotes
from app.guards.memory import PASSED, SUSPECTED, Passed, Rejected, Remembered, Replaced, Suspected, make_key
from app.guards.parts import Place, find_last_answer, find_question, list_parts, replace_texts, write_withheld
from app.guards.placeholders import Placeholders
from app.guards.restoring import RestoringStage, restore_text
from app.guards.rules import GuardRule
from app.guards.services import SERVICES
from app.guards.verdicts import GuardError, Pass, Question, Reject, Replace, TextPart, Verdict, cut_reason
from app.guards.watch import JudgedReply, RefusalStage, WatchedReply

log = logging.getLogger("parley.guards")

_T = TypeVar("_T")

MAX_SINGLE_QUESTIONS = 32
"""So many parts of a group are asked again one by one, to find the one that is refused."""
LARGE_CHARACTERS = 64 * 1024
"""More new text is searched in another thread."""
_MASKED_FIELDS = ("user", "metadata", "safety_identifier", "stop")


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


class _Asked(Struct, frozen=True):
    """One part, its place, and the key under which its verdict is remembered."""

    place: Place
    part: TextPart
    key: bytes


def split_groups(asked: "Sequence[_Asked]") -> "list[list[_Asked]]":
    groups = [[one for one in asked if one.part.group == name] for name in "ABC"]
    return [group for group in groups if group]


class RequestGuard:
    """Implements `Guarding` for all calls to models of one reply."""

    def __init__(self, guards: Guards, chosen: GuardSet, facts: RequestFacts) -> None:
        self._guards = guards
        self.chosen = chosen
        self._facts = facts
        self.placeholders = Placeholders(chosen.masking.key, facts.scope)
        self.verdicts: dict[str, str] = {}
        """What each guard has said of the request."""
        self._words_of_files: dict[str, Mapping[tuple[str, str], str]] = {}
        """The words of the values in the texts of files, by the URLs of these."""
        self._turn = 0
        self._asks = True
        """Services are asked."""

    @property
    def traits(self) -> Mapping[str, Any]:
        return {"guards": self.chosen.reply_digest} if self.chosen.reply_digest else {}

    @property
    def reads_files(self) -> bool:
        chosen = self.chosen
        return any(rule.enforces for rule in (*chosen.finding, *chosen.analyzing, *chosen.judging))

    @property
    def must_translate(self) -> bool:
        return self.chosen.must_translate

    def make_stage(self, *, fails_refused: bool) -> Stage:
        refusals = RefusalStage(fails=fails_refused)
        if not self.chosen.masks:
            return refusals
        return Pipe(
            (
                RestoringStage(
                    self.placeholders, self.chosen.masking.restore, self._guards.observer.count_placeholders
                ),
                refusals,
            )
        )

    def describe(self) -> str:
        """Return what the guards have said of the request, for a header and the log."""
        return " ".join(f"{name}={verdict}" for name, verdict in self.verdicts.items())

    # Requests.

    async def admit(self, request: ChatRequest) -> Admitted:
        """Return the request as the model may have it. Raises PolicyRefused, GuardUnavailable and Unsupported."""
        self._turn += 1
        messages: Sequence[Message] = request.messages
        messages = await self._judge(request, messages, sees_original=True)
        if self.chosen.finding or self.chosen.analyzing:
            messages = await self._mask_new(request, messages)
        messages = await self._judge(request, messages, sees_original=False)
        return self._finish(request, tuple(messages))

    async def _mask_new(self, request: ChatRequest, messages: Sequence[Message]) -> Sequence[Message]:
        """Mask the values in messages, of which only new ones are searched. Raises PolicyRefused, GuardUnavailable."""
        done = len(find_masked(messages, request.known, self._masked_as).messages)
        spans, complete = await self._analyze(messages[done:])
        known = request.known if complete else None
        if sum(map(_count_characters, messages[done:])) > LARGE_CHARACTERS:
            return await asyncio.to_thread(self._mask, messages, spans, known)
        return self._mask(messages, spans, known)

    @property
    def _masked_as(self) -> tuple[Any, ...]:
        """Under which the masked beginning of a conversation is known."""
        return "masked", self.chosen.digest, self._facts.scope

    def admit_locally(self, request: ChatRequest) -> Admitted | None:
        """Do what `admit` does with detectors alone: nothing is asked. None if that refuses the request, or if values
        would be masked that only a service finds."""
        if any(rule.masks for rule in self.chosen.analyzing):
            return None
        self._asks = False
        try:
            return self._finish(request, tuple(self._mask(request.messages, {}, request.known)))
        except PolicyRefused:
            return None

    def check_readable(self, request: ChatRequest) -> None:
        """Raises Unsupported for what the gateway cannot read, and so cannot show to a guard."""
        unread: Exception | None = request.refusal
        if request.source is not None and request.source.violations:
            unread = InvalidInput(request.source.violations)
        if unread is not None and self.chosen.enforces:
            text = "guards check the requests for this model, and the gateway cannot read all of this one"
            why = unread.message if isinstance(unread, ParleyError) else type(unread).__name__
            raise Unsupported(f"{text}: {why}", unread.param if isinstance(unread, ParleyError) else None)

    def _finish(self, request: ChatRequest, messages: tuple[Message, ...]) -> Admitted:
        """Return the request with these messages. The client's own body is not sent if anything in it has changed."""
        changed = len(messages) != len(request.messages) or any(
            one is not other for one, other in zip(messages, request.messages, strict=True)
        )
        if not changed and not self.must_translate:
            return mark_admitted(replace(request, guard=self))
        masker, masking = self._make_masker({}), self.chosen.masking
        if self.chosen.masks and masking.notice:
            messages = _add_notice(messages)
        return mark_admitted(
            replace(
                request,
                messages=messages,
                source=None,
                passed=None,
                guard=self,
                params=_mask_params(request.params, masker),
                caller_fields=masker.mask_value(request.caller_fields) if request.caller_fields else {},
            )
        )

    # Masking.

    def _make_masker(self, spans: Mapping[str, list[tuple[Span, SpanRule]]]) -> ValueMasker:
        find: FindSpans = self._guards.make_find(self.chosen.finding)
        if spans:
            local = find

            def find_all(text: str) -> list[tuple[Span, SpanRule]]:
                return [*local(text), *spans.get(text, ())]

            find = find_all
        strict = [rule for rule in self.chosen.finding if rule.action != "mask"]
        find_of_model = self._guards.make_find(strict) if strict else None
        return ValueMasker(find, self.placeholders, self.chosen.masking.is_ignored, find_of_model)

    def _mask(
        self,
        messages: Sequence[Message],
        spans: Mapping[str, list[tuple[Span, SpanRule]]],
        known: KnownConversation | None,
    ) -> Sequence[Message]:
        """Mask the values in messages. Raises PolicyRefused."""
        chosen = self.chosen
        if not chosen.finding and not chosen.analyzing:
            return messages
        masker = self._make_masker(spans)
        done = mask_conversation(messages, masker, self.placeholders, known, self._masked_as)
        self._report_masked(masker)
        masked: Sequence[Message] = done.messages
        if done.refused:
            masked = self._withhold(messages, masked, done.refused)
        return masked

    def _report_masked(self, masker: ValueMasker) -> None:
        for kind, count in masker.kinds.items():
            self._guards.observer.count_masked(kind, count)
        for rule in (*self.chosen.finding, *self.chosen.analyzing):
            count = masker.counts.get(rule.name, 0)
            word = {"mask": "masked", "redact": "redacted", "reject": "found", "observe": "found"}[rule.action]
            self.verdicts.setdefault(rule.name, f"{word}:{count}" if count else "pass")
            self._guards.count_check(rule.name, "request", "replace" if count and rule.action != "observe" else "pass")

    def _withhold(
        self, given: Sequence[Message], masked: Sequence[Message], refused: Sequence[tuple[int, int, Refused]]
    ) -> Sequence[Message]:
        """Refuse the request for a new text with a value that is refused; withhold others. Raises PolicyRefused."""
        last_answer, question, out = find_last_answer(given), find_question(given), list(masked)
        for number, index, why in refused:
            message, part = out[number], given[number].parts[index]
            rule = next(rule for rule in self.chosen.rules if rule.name == why.guard)
            is_new = number > last_answer and (part.kind != "tool_result" or rule.refuses_results)
            if is_new and isinstance(part, Text) and message.role == "user":
                is_new = not self._was_refused(rule, message.role, part.text) or number >= question
            if is_new:
                self._refuse(why.guard, why.reason, why.kind.lower())
            out[number] = _withhold_part(message, index, why)
            self.verdicts[why.guard] = "withhold"
        return out

    def _was_refused(self, rule: GuardRule, role: Role, text: str) -> bool:
        """Whether a guard with detectors has refused a text of an earlier request. It has refused it now."""
        memory = self._guards.memory
        key = make_key(self._guards.digest(rule), self._facts.scope, TextPart("", role, "text", text))
        refused = memory.get(key) is not None
        memory.put(key, Rejected(""), rule.remember_seconds)
        return refused

    def _refuse(self, guard: str, reason: str, category: str | None) -> None:
        """Raises PolicyRefused."""
        self.verdicts[guard] = "reject"
        self._guards.count_check(guard, "request", "reject")
        log.info("request %s: the guard %s has refused it, category %s", self._facts.request_id, guard, category)
        raise PolicyRefused(guard, cut_reason(reason), category)

    async def _analyze(self, messages: Sequence[Message]) -> tuple[dict[str, list[tuple[Span, SpanRule]]], bool]:
        """Return the values that Presidio has found, by text, and whether it has seen all. Raises GuardUnavailable."""
        found: dict[str, list[tuple[Span, SpanRule]]] = {}
        complete = True
        for rule in self.chosen.analyzing:
            texts = list(dict.fromkeys(_list_searched(messages)))
            if rule.observes:
                self._guards.run_aside(self._observe_spans(rule, texts))
                continue
            spans = await self._ask_spans(rule, texts)
            complete = complete and len(spans) == len(texts)
            for text in texts:
                found.setdefault(text, []).extend(
                    (Span(start, end, kind), SpanRule(rule.name, rule.action))
                    for start, end, kind in spans.get(text, ())
                )
        return found, complete

    async def _observe_spans(self, rule: GuardRule, texts: Sequence[str]) -> None:
        spans = await self._ask_spans(rule, texts)
        count = sum(map(len, spans.values()))
        log.info("request %s: the guard %s would have found %d values", self._facts.request_id, rule.name, count)

    async def _ask_spans(self, rule: GuardRule, texts: Sequence[str]) -> dict[str, list[tuple[int, int, str]]]:
        memory, digest = self._guards.memory, self._guards.digest(rule)
        keys = {text: make_key(digest, "", TextPart("", "user", "text", text)) for text in texts}
        found = {text: memory.get(key) if text.strip() else [] for text, key in keys.items()}
        new = [text for text in texts if found[text] is None]
        if new:
            try:
                answers = await self._guards.client(rule.name).find_spans(new, self._make_question((), "request"))
            except GuardError as error:
                self._fail(rule, "request", error)
                return {text: spans for text, spans in found.items() if spans is not None}
            for text, spans in zip(new, answers, strict=True):
                found[text] = spans
                memory.put(keys[text], spans, rule.remember_seconds, 32 * len(spans))
        return {text: spans for text, spans in found.items() if spans is not None}

    # Files.

    async def admit_files(self, files: Mapping[Any, Attachment]) -> dict[Any, Attachment]:
        out = dict(files)
        for item, file in files.items():
            if isinstance(file, FileText) and file.sections:
                try:
                    texts = await self.admit_texts([section.text for section in file.sections], "file", item.url)
                except PolicyRefused as error:
                    if item.required:
                        raise
                    out[item] = Unreadable(f"is withheld by policy: {error.message}")
                    continue
                sections = [
                    section if text == section.text else replace(section, text=text)
                    for section, text in zip(file.sections, texts, strict=True)
                ]
                out[item] = replace(file, sections=tuple(sections))
        return out

    def mask_quotes(self, request: Admitted) -> Admitted:
        if not self._words_of_files:
            return request
        masked = mask_quotes(request.messages, self._make_masker({}), self._words_of_files)
        return mark_admitted(replace(request, messages=tuple(masked)))

    async def admit_texts(self, texts: Sequence[str], kind: str, url: str = "") -> list[str]:
        """Return texts that came with a request, as its model may have them. Raises ParleyError."""
        message = Message("user", tuple(map(Text, texts)), path=kind)
        request = ChatRequest(self._facts.model, (message,))
        messages: Sequence[Message] = await self._judge(request, request.messages, sees_original=True)
        spans, _ = await self._analyze(messages)
        masker = self._make_masker(spans)
        done = await asyncio.to_thread(mask_conversation, messages, masker, self.placeholders, None)
        if url and masker.words:
            self._words_of_files[url] = masker.words
        self._report_masked(masker)
        masked = self._withhold(messages, done.messages, done.refused)
        judged = await self._judge(request, masked, sees_original=False)
        return [part.text for part in judged[0].parts if isinstance(part, Text)]

    async def admit_fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a request that is no conversation, as its model may have them. Raises ParleyError."""
        read = {name: value for name, value in fields.items() if name in CONTENT_FIELDS}
        texts = [*dict.fromkeys(text for value in read.values() for text in list_texts(value))]
        admitted = dict(zip(texts, await self.admit_texts(texts, "body"), strict=True)) if texts else {}
        masker = self._make_masker({})
        return {
            name: replace_leaves(value, admitted) if name in read else masker.mask_value(value)
            for name, value in fields.items()
        }

    async def admit_result(self, name: str, text: str) -> str:
        """Return the text of a tool's result as the client may have it, where a guard withholds it. What is masked in
        it for the model is known when that gets it. Raises ParleyError."""
        message = Message("tool", (ToolResult((Text(text),), name),))
        request = ChatRequest(self._facts.model, (message,))
        seen: Sequence[Message] = await self._judge(request, (message,), sees_original=True)
        spans, _ = await self._analyze(seen)
        masked = mask_conversation(seen, self._make_masker(spans), self.placeholders, None)
        judged = await self._judge(request, self._withhold(seen, masked.messages, masked.refused), sees_original=False)
        if judged[0] is masked.messages[0]:
            return text
        part = judged[0].parts[0]
        assert isinstance(part, ToolResult)
        return restore_text("".join(item.text for item in part.content if isinstance(item, Text)), self.placeholders)

    def restore_value(self, value: Any) -> Any:
        """Restore the strings of arguments for a tool of the gateway."""
        if isinstance(value, str):
            return restore_text(value, self.placeholders)
        if isinstance(value, list):
            return [self.restore_value(item) for item in value]
        if isinstance(value, dict):
            return {name: self.restore_value(item) for name, item in value.items()}
        return value

    # Judging.

    async def _judge(
        self, request: ChatRequest, messages: Sequence[Message], *, sees_original: bool
    ) -> Sequence[Message]:
        """Return the messages as the guards let them pass. Raises PolicyRefused and GuardUnavailable."""
        for rule in self.chosen.judging if self._asks else ():
            if rule.sees_original is not sees_original:
                continue
            if rule.observes:
                self._guards.run_aside(self._observe(rule, request, messages))
            elif rule.context == "all":
                messages = await self._judge_whole(rule, messages)
            else:
                messages = await self._judge_new(rule, request, messages)
        return messages

    async def _observe(self, rule: GuardRule, request: ChatRequest, messages: Sequence[Message]) -> None:
        try:
            await self._judge_new(rule, request, messages)
        except ParleyError as error:
            log.info("request %s: the guard %s would have refused it", self._facts.request_id, rule.name)
            log.debug("request %s: %s", self._facts.request_id, error)
        except Exception:
            log.exception("defect while a guard observed a request")

    async def _judge_whole(self, rule: GuardRule, messages: Sequence[Message]) -> Sequence[Message]:
        asked = [_Asked(place, part, b"") for place, part in list_parts(messages, 0, find_last_answer(messages), rule)]
        if not asked:
            return messages
        verdict = await self._ask(rule, self._make_question([one.part for one in asked], "request"))
        if isinstance(verdict, Reject):
            self._refuse(rule.name, verdict.reason, verdict.category)
        if isinstance(verdict, Replace):
            self._note(rule, "replace")
            return replace_texts(
                messages, 0, {one.place: verdict.texts[one.part.id] for one in asked if one.part.id in verdict.texts}
            )
        self._note(rule, "pass")
        return messages

    async def _judge_new(self, rule: GuardRule, request: ChatRequest, messages: Sequence[Message]) -> Sequence[Message]:
        known, now = request.known, self._guards.memory.clock()
        what = ("judged", self._guards.digest(rule), self._facts.scope)
        kept = None if known is None or rule.observes else known.find((*what, "whole"), messages)
        kept = kept or (None if known is None or rule.observes else known.find(what, messages))
        start, before = (0, ()) if kept is None or kept[1] < now else (len(kept[0]), kept[0])
        rest = messages[start:]
        last_answer = find_last_answer(messages)
        digest = self._guards.digest(rule)
        asked = [
            _Asked(place, part, make_key(digest, self._facts.scope, part))
            for place, part in list_parts(rest, start, last_answer, rule)
        ]
        asked = self._move_refused(asked, find_question(messages))
        outcomes, complete = await self._find_outcomes(rule, asked)
        new: dict[Place, str] = {}
        for one in asked:
            text = self._apply(rule, one, outcomes.get(one.place, PASSED))
            if text is not None:
                new[one.place] = text
        judged = (*before, *(replace_texts(rest, start, new) if new else rest))
        self._note(rule, "withhold" if new else "pass")
        end = find_end(start, len(messages))
        if known is not None and complete and not rule.observes:
            until = now + rule.remember_seconds
            known.keep((*what, "whole"), messages, (judged, until))
            if end > start:
                known.keep(what, messages[:end], (judged[:end], until))  # clients change the last ones
        return judged if new or before else messages

    def _move_refused(self, asked: Sequence[_Asked], question: int) -> list[_Asked]:
        """Return the parts, of which texts that were refused in an earlier request, and that are not the newest text of
        the user, count as older ones: a client may have no answer to put behind a request that was refused."""
        memory = self._guards.memory
        return [
            replace(one, part=replace(one.part, group="C"))
            if one.part.group == "A"
            and one.part.role == "user"
            and one.place.message < question
            and isinstance(memory.get(one.key), Rejected | Suspected)
            else one
            for one in asked
        ]

    def _apply(self, rule: GuardRule, one: _Asked, outcome: Remembered) -> str | None:
        """Return the new text of a part; None if it stays. Raises PolicyRefused."""
        if isinstance(outcome, Passed):
            return None
        if isinstance(outcome, Replaced):
            return outcome.text
        group = one.part.group
        if group == "A" or (group == "B" and rule.refuses_results):
            self._refuse(rule.name, outcome.reason, outcome.category)
        self._guards.count_check(rule.name, "request", "withhold")
        log.info(
            "request %s: the guard %s has refused %s, which is withheld", self._facts.request_id, rule.name, one.part.id
        )
        return write_withheld(one.part, rule.name, cut_reason(outcome.reason))

    async def _find_outcomes(self, rule: GuardRule, asked: Sequence[_Asked]) -> tuple[dict[Place, Remembered], bool]:
        """Return what is remembered of parts, or what the guard says now, and whether it has said something of all."""
        memory = self._guards.memory
        outcomes: dict[Place, Remembered] = {}
        new: list[_Asked] = []
        alone: list[_Asked] = []
        for one in asked:
            remembered = memory.get(one.key)
            if isinstance(remembered, Suspected) and one.part.group == "C":
                alone.append(one)
            elif remembered is not None and not isinstance(remembered, Suspected):
                outcomes[one.place] = remembered
            elif one.part.text.strip():
                new.append(one)
        for one in asked:  # refused again without a question
            if isinstance(outcomes.get(one.place), Rejected):
                self._apply(rule, one, outcomes[one.place])
        if not new and not alone:
            if asked:
                self._guards.count_check(rule.name, "request", "remembered")
            return outcomes, True
        groups = split_groups(new) if SERVICES[rule.api].asks_groups or not new else [new]
        groups += [[one] for one in alone] if len(alone) <= MAX_SINGLE_QUESTIONS else [alone]
        try:
            for found in await gather_verdicts([self._ask_group(rule, group) for group in groups]):
                outcomes |= found
        except GuardError as error:
            self._fail(rule, "request", error)
            return outcomes, False
        return outcomes, True

    async def _ask_group(self, rule: GuardRule, group: Sequence[_Asked]) -> dict[Place, Remembered]:
        """Ask about one group, and again part by part if it is not known which of them is refused. Raises GuardError,
        and PolicyRefused if new texts are refused."""
        verdict = await self._ask(rule, self._make_question([one.part for one in group], "request"))
        if isinstance(verdict, Reject) and verdict.ids is None and len(group) > 1:
            apart = split_groups(group)
            if len(apart) == 1:
                if group[0].part.group == "A":
                    for one in group:
                        self._guards.memory.put(one.key, SUSPECTED, rule.remember_seconds)
                    self._refuse(rule.name, verdict.reason, verdict.category)
                apart = [[one] for one in group] if len(group) <= MAX_SINGLE_QUESTIONS else []
            if apart:
                out: dict[Place, Remembered] = {}
                for found in await gather_verdicts([self._ask_group(rule, part) for part in apart]):
                    out |= found
                return out
        return {one.place: self._remember(rule, one, verdict) for one in group}

    def _remember(self, rule: GuardRule, one: _Asked, verdict: Verdict) -> Remembered:
        outcome: Remembered = PASSED
        if isinstance(verdict, Replace) and one.part.id in verdict.texts:
            outcome = Replaced(check_replacement(one.part, verdict.texts[one.part.id]))
        elif isinstance(verdict, Reject) and (verdict.ids is None or one.part.id in verdict.ids):
            outcome = Rejected(cut_reason(verdict.reason), verdict.category)
        size = len(outcome.text) if isinstance(outcome, Replaced) else 0
        self._guards.memory.put(one.key, outcome, rule.remember_seconds, size)
        return outcome

    def _make_question(self, parts: Sequence[TextPart], phase: Any, *, final: bool = True) -> Question:
        facts = self._facts
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
            self._turn,
            final,
            facts.headers,
        )

    async def _ask(self, rule: GuardRule, question: Question) -> Verdict:
        """Raises GuardError."""
        headers = {name: value for name, value in question.headers.items() if name in rule.forward_headers}
        asked, began = replace(question, headers=headers), time.perf_counter()
        try:
            return await self._guards.client(rule.name).ask(asked, self._facts.traceparent)
        finally:
            self._guards.observer.observe_check(rule.name, question.phase, time.perf_counter() - began)

    def _note(self, rule: GuardRule, verdict: str) -> None:
        if self.verdicts.get(rule.name) not in ("failed", "withhold"):
            self.verdicts[rule.name] = verdict
        self._guards.count_check(rule.name, "request", verdict)

    def _fail(self, rule: GuardRule, phase: str, error: GuardError) -> None:
        """Raises GuardUnavailable, unless the operator has chosen to go on."""
        self._guards.count_check(rule.name, phase, "failed")
        self.verdicts[rule.name] = "failed"
        log.error("request %s: the guard %s gave no verdict: %s", self._facts.request_id, rule.name, error)
        if not rule.passes_on_failure and not rule.observes:
            raise GuardUnavailable(rule.name, str(error))

    # Replies.

    def clean_fault(self, fault: Fault) -> Fault:
        return replace(fault, detail=None) if self.chosen.replying and fault.detail is not None else fault

    def watch(self, reply: Reply) -> Reply:
        chosen = self.chosen
        if not chosen.replying and not chosen.watching:
            return reply
        return WatchedReply(
            reply,
            self.judge_reply,
            self._observe_reply,
            self._guards.run_aside,
            chosen.replying,
            chosen.watching,
            self.remember_reply,
            self.clean_fault,
        )

    async def _observe_reply(self, parts: Sequence[TextPart]) -> None:
        for rule in self.chosen.watching:
            try:
                verdict = await self._ask(rule, self._make_question(_select(rule, parts), "reply"))
                self._guards.count_check(rule.name, "reply", type(verdict).__name__.lower())
            except GuardError as error:
                self._guards.count_check(rule.name, "reply", "failed")
                log.error("request %s: the guard %s gave no verdict: %s", self._facts.request_id, rule.name, error)
            except Exception:
                log.exception("defect while a guard observed a reply")

    async def judge_reply(self, parts: Sequence[TextPart], *, final: bool) -> JudgedReply:
        """Return which part of a reply is passed on. Raises GuardUnavailable."""
        texts: dict[str, str] = {}
        holdback = 0
        for rule in self.chosen.replying:
            current = [replace(part, text=texts.get(part.id, part.text)) for part in parts]
            shown = _select(rule, current)
            if not shown:
                continue
            if rule.sees_original:
                shown = [
                    replace(part, text=restore_text(part.text, self.placeholders, in_json=part.kind == "arguments"))
                    for part in shown
                ]
            try:
                verdict = (
                    self._find_locally(rule, shown)
                    if rule.detectors
                    else await self._ask(rule, self._make_question(shown, "reply", final=final))
                )
            except GuardError as error:
                self._fail(rule, "reply", error)
                continue
            if isinstance(verdict, Reject):
                self._guards.count_check(rule.name, "reply", "reject")
                log.info("request %s: the guard %s has refused the reply", self._facts.request_id, rule.name)
                return JudgedReply(refused=(rule.name, cut_reason(verdict.reason), verdict.category))
            holdback = max(holdback, verdict.holdback)
            self._guards.count_check(rule.name, "reply", "replace" if isinstance(verdict, Replace) else "pass")
            if isinstance(verdict, Replace):
                try:
                    texts |= self._take_replacements(rule, shown, verdict)
                except GuardError as error:
                    self._fail(rule, "reply", error)
        return JudgedReply(texts, holdback)

    def _take_replacements(self, rule: GuardRule, shown: Sequence[TextPart], verdict: Replace) -> dict[str, str]:
        new = {part.id: check_replacement(part, verdict.texts[part.id]) for part in shown if part.id in verdict.texts}
        if rule.sees_original:
            masker = self._make_masker({})
            masker.words.update(self.placeholders.words)
            kinds = {part.id: part.kind for part in shown}
            new = {
                id_: masker.mask_arguments(text, of_model=True).text
                if kinds[id_] == "arguments"
                else masker.mask_known(text)
                for id_, text in new.items()
            }
        return new

    def _find_locally(self, rule: GuardRule, parts: Sequence[TextPart]) -> Verdict:
        masker = ValueMasker(self._guards.make_find([rule]), self.placeholders, self.chosen.masking.is_ignored)
        texts: dict[str, str] = {}
        for part in parts:
            found = masker.mask(part.text)
            if found.refused is None and part.name:
                found = replace(found, refused=masker.mask(part.name).refused)
            if found.refused is not None:
                return Reject(found.refused.reason, found.refused.kind.lower())
            if found.text != part.text:
                texts[part.id] = (
                    masker.mask_arguments(part.text, of_model=False).text if part.kind == "arguments" else found.text
                )
        return Replace(texts) if texts else Pass()

    def remember_reply(self, parts: Sequence[TextPart]) -> None:
        """Remember that parts of a reply have passed, which come back as history."""
        for rule in self.chosen.replying:
            if rule.url and rule in self.chosen.judging and rule.context == "new":
                digest = self._guards.digest(rule)
                for part in _select(rule, parts):
                    key = make_key(digest, self._facts.scope, part)
                    self._guards.memory.put(key, PASSED, rule.remember_seconds)


def check_replacement(part: TextPart, text: str) -> str:
    """Return a new text for a part. Raises GuardError for arguments that are no JSON object."""
    if part.kind != "arguments":
        return text
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise GuardError("it replaces the arguments of a call by what is not a JSON object")
    return text


def _withhold_part(message: Message, index: int, why: Refused) -> Message:
    """Return a message in which words stand in the place of a part that is refused."""
    part, text = message.parts[index], f"[withheld by policy {why.guard}: {why.reason}]"
    new: Part
    if isinstance(part, ToolResult):
        new = replace(part, content=(Text(text),))
    elif isinstance(part, ToolCall):
        new = replace(part, arguments=msgspec.json.encode({"withheld": text}).decode())
    else:
        new = replace(part, text=text) if isinstance(part, Text | Reasoning) else Text(text)
    return replace(message, parts=(*message.parts[:index], new, *message.parts[index + 1 :]))


def _select(rule: GuardRule, parts: Sequence[TextPart]) -> list[TextPart]:
    return [part for part in parts if part.kind != "reasoning" or rule.reasoning == "check"]


def list_texts(value: Any) -> Iterator[str]:
    """Yield the texts of a value as of JSON; data of images are none."""
    if isinstance(value, str):
        if not value.startswith("data:"):
            yield value
    elif isinstance(value, list | dict):
        for item in value if isinstance(value, list) else value.values():
            yield from list_texts(item)


def replace_leaves(value: Any, texts: Mapping[str, str]) -> Any:
    """Return a value with other strings; the same object if none differs."""
    if isinstance(value, str):
        new = texts.get(value, value)
        return value if new == value else new
    if isinstance(value, list):
        items = [replace_leaves(item, texts) for item in value]
        return value if all(map(is_, items, value)) else items
    if isinstance(value, dict):
        fields = {name: replace_leaves(item, texts) for name, item in value.items()}
        return value if all(map(is_, fields.values(), value.values())) else fields
    return value


async def gather_verdicts(asked: Sequence[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Wait for all answers. Raises PolicyRefused if there is one, else the first GuardError."""
    found = await asyncio.gather(*asked, return_exceptions=True)
    errors = [one for one in found if isinstance(one, BaseException)]
    if errors:
        raise next((error for error in errors if isinstance(error, PolicyRefused)), errors[0])
    return [one for one in found if not isinstance(one, BaseException)]


def _count_characters(message: Message) -> int:
    return sum(len(getattr(part, "text", "")) for part in message.parts) + sum(
        len(item.text)
        for part in message.parts
        if part.kind == "tool_result"
        for item in part.content
        if isinstance(item, Text)
    )


def _list_searched(messages: Sequence[Message]) -> list[str]:
    """Return the texts in which values are searched: those of the assistant are not among them."""
    out: list[str] = []
    for message in messages:
        for part in message.parts if message.role != "assistant" else ():
            if isinstance(part, Text):
                out.append(part.text)
            elif part.kind == "tool_result":
                out += [item.text for item in part.content if isinstance(item, Text)]
    return out


def _add_notice(messages: Sequence[Message]) -> tuple[Message, ...]:
    first = messages[0] if messages else None
    if first is not None and first.role == "system":
        return (replace(first, parts=(*first.parts, Text(NOTICE))), *messages[1:])
    return (Message("system", (Text(NOTICE),), path="messages"), *messages)


def _mask_params(params: Mapping[str, Any], masker: ValueMasker) -> Mapping[str, Any]:
    """Mask the fields that name a user, and all that the gateway passes on unread."""
    names = [name for name in (*_MASKED_FIELDS, "extra_body") if params.get(name) is not None]
    return {**params, **{name: masker.mask_value(params[name]) for name in names}} if names else params
