"""`RequestGuard`: admits one request, and watches its reply.

The order: guards that see originals, then masking, then all others, which see masked texts.
"""

import asyncio
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import is_
from typing import Any

import msgspec
from msgspec.structs import replace

from app.chat.admitted import Admitted, mark_admitted
from app.chat.attachments import Attachment, FileText, Section, Unreadable
from app.chat.events import Event, Fault
from app.chat.known_conversation import KnownConversation
from app.chat.messages import ChatRequest, Media, Message, Part, Reasoning, Text, ToolCall, ToolResult
from app.chat.stage import Stage
from app.chat.stream import Reply
from app.endpoints.body import CONTENT_FIELDS
from app.errors import InvalidInput, ParleyError, PolicyRefused, Unsupported
from app.guards.guards import NOTICE, Guards, GuardSet
from app.guards.masking import (
    FindSpans,
    ValueMasker,
    find_masked,
    mask_conversation,
    mask_message,
    mask_quotes,
    read_escapes,
)
from app.guards.memory import make_key
from app.guards.parts import find_last_answer, find_question
from app.guards.placeholders import Placeholders
from app.guards.questions import Questions
from app.guards.reply_judge import ReplyJudge
from app.guards.request_judge import RequestJudge
from app.guards.restoring import RestoringStage, restore_text
from app.guards.rules import GuardRule
from app.guards.sealed_replies import SealedReply, make_reader_stage, seal_reply
from app.guards.spans import HiddenText, MaskedConversation, Refused, Span, SpanRule
from app.guards.verdicts import GuardError, PartKind, RequestFacts, TextPart
from app.guards.watch import WatchedReply
from app.params import READ_PARAMS, SERVER_PARAMS, UNREADABLE_PARAMS, chooses_route

log = logging.getLogger("parley.guards")

_MEDIA_DATA = re.compile(r"data:(?!text/)[\w.+-]+/[\w.+-]+(;[\w.+=-]+)*;base64,[A-Za-z0-9+/=_-]*\Z", re.IGNORECASE)
LARGE_CHARACTERS = 64 * 1024
"""More new text is searched in another thread."""
_OWN_TEXTS = ("text", "title")
_READ = READ_PARAMS | CONTENT_FIELDS
_MASKED_FIELDS = ("metadata", "stop", "logit_bias", "extra_body")
_CHOICES = ("function_choice", "tool_choice")
"""Names of functions, which are sent as they are."""


class RequestGuard:
    """Implements `Guarding` for all calls to models of one reply."""

    def __init__(self, guards: Guards, chosen: GuardSet, facts: RequestFacts) -> None:
        self._guards = guards
        self.chosen = chosen
        self._facts = facts
        self.placeholders = Placeholders(chosen.masking.key, facts.scope)
        self._questions = Questions(guards, chosen, facts)
        self._requests = RequestJudge(self._questions)
        self._asked = 0
        """The messages of the caller's own request; those behind are of turns of the reply."""
        self._earlier: Mapping[PartKind, str] = {}
        """The ends of the texts of these turns."""
        self._last: tuple[Sequence[Message], tuple[Message, ...]] | None = None
        """The messages that were admitted last, and as the model may have them."""
        self._has_begun = False
        """The turn that is admitted next is the one that was looked at for its images."""
        self._replies = ReplyJudge(self._questions, self.placeholders, lambda: self._make_masker({}))
        self._words_of_files: dict[str, Mapping[tuple[str, str], str]] = {}
        """The words of the values in the texts of files, by the URLs of these."""

    @property
    def verdicts(self) -> Mapping[str, str]:
        """What each guard has said of the request."""
        return self._questions.verdicts

    def list_found_values(self) -> Mapping[str, str]:
        """Return the values that no detector finds but services have found, and their kinds."""
        if not self.chosen.analyzing:
            return {}
        return {**{value: kind for kind, value in self.placeholders.words}, **self._questions.values}

    @property
    def traits(self) -> Mapping[str, Any]:
        return {"guards": self.chosen.reply_digest} if self.chosen.reply_digest else {}

    @property
    def reads_files(self) -> bool:
        return self.chosen.enforces_requests

    @property
    def must_translate(self) -> bool:
        return self.chosen.must_translate

    def make_stage(self, *, fails_refused: bool) -> Stage:
        count = self._guards.observer.count_placeholders
        return make_reader_stage(self.placeholders, self._restored, count, fails_refused=fails_refused)

    def seal(self, about: str) -> str:
        return seal_reply(self.chosen.masking.key, about, SealedReply(self.placeholders.values, self._restored))

    @property
    def _restored(self) -> tuple[str, ...]:
        """Which texts of replies are restored."""
        return self.chosen.masking.restore if self.chosen.masks else ()

    def describe(self) -> str:
        """Return what the guards have said of the request, for a header and the log."""
        return " ".join(f"{name}={verdict}" for name, verdict in self.verdicts.items())

    # Requests.

    async def admit(self, request: ChatRequest) -> Admitted:
        """Return the request as the model may have it. Raises PolicyRefused, GuardUnavailable and Unsupported."""
        request = await self._admit_contents(request)
        if self._last is not None and self._last[0] is request.messages:
            return self._finish(request, self._last[1])
        if not self._has_begun:
            self._questions.turn += 1
        self._has_begun = False
        messages = await self._admit_messages(request)
        self._asked = self._asked or len(messages)
        self._earlier = self._read_earlier(messages[self._asked :])
        if not any(rule.sends_tools for rule in self.chosen.judging):
            self._last = request.messages, messages
        return self._finish(request, messages)

    async def _admit_contents(self, request: ChatRequest) -> ChatRequest:
        """Return the request with fields that a model reads beside the messages, such as `documents`, as it may have
        them. Raises ParleyError."""
        extra = request.params.get("extra_body") or {}
        read = _find_read(extra)
        unreadable = next((name for name in extra if name in UNREADABLE_PARAMS), None)
        if unreadable is not None and self.chosen.enforces_requests:
            text = (
                "guards check the requests for this model, and cannot read this form of a conversation: send messages"
            )
            raise Unsupported(text, request.paths.extra(unreadable))
        texts = [*dict.fromkeys(text for value in read.values() for text in list_texts(value))]
        if not texts:
            return request
        admitted = dict(zip(texts, await self.admit_texts(texts), strict=True))
        changed = {name: replace_leaves(value, admitted) for name, value in read.items()}
        if all(changed[name] is value for name, value in read.items()):
            return request
        params = {**request.params, "extra_body": {**extra, **changed}}
        return replace(request, params=params, source=None, passed=None)

    async def admit_images(self, request: ChatRequest) -> ChatRequest:
        """Return a request whose images another model describes before it is admitted. Raises ParleyError."""
        if not any(rule.sends_images for rule in self.chosen.judging):
            return request
        self._questions.turn += 1
        self._has_begun = True
        messages = await self._admit_messages(request)
        if _are_same(messages, request.messages):
            return request
        return replace(request, messages=messages, source=None, passed=None, known=None)

    async def _admit_messages(self, request: ChatRequest) -> tuple[Message, ...]:
        messages: Sequence[Message] = request.messages
        messages = await self._requests.judge(request, messages, sees_original=True)
        if self.chosen.finding or self.chosen.analyzing:
            messages = await self._mask_new(request, messages)
        judged = await self._requests.judge(request, messages, sees_original=False)
        return tuple(self._mask_replaced(messages, judged))

    async def admit_restored(self, request: ChatRequest, given: Sequence[Message]) -> Admitted:
        """Return a request in which the gateway has put reasoning back into the given messages, as the model may have
        it: it may be of a reply to a request with other guards, or without any. Raises ParleyError."""
        places = [number for number, one in enumerate(request.messages) if one is not given[number]]
        if not places:
            return mark_admitted(request)
        thoughts = [_keep_reasoning(request.messages[number]) for number in places]
        asked = ChatRequest(self._facts.model, (*thoughts, Message("user", ())))  # older than a user's words
        judged = await self._requests.judge(asked, asked.messages, sees_original=True)
        masker = self._make_known_masker()
        masked = mask_conversation(judged, masker, self.placeholders, None)
        judged = self._withhold(judged, masked.messages, masked.refused)
        judged = await self._requests.judge(asked, judged, sees_original=False)
        messages = list(request.messages)
        for number, thought in zip(places, judged, strict=False):
            messages[number] = _replace_reasoning(messages[number], thought)
        return mark_admitted(replace(request, messages=tuple(messages)))

    def _read_earlier(self, turns: Sequence[Message]) -> dict[PartKind, str]:
        """Return the ends of what the client has got of the turns of a reply: its text and its reasoning."""
        parts = [part for turn in turns if turn.role == "assistant" for part in turn.parts]
        overlap = max([rule.overlap_characters for rule in self.chosen.replying], default=0) if parts else 0
        if not overlap:
            return {}
        text = "".join([part.text for part in parts if type(part) is Text])
        reasoning = "".join([part.text for part in parts if type(part) is Reasoning])
        return {"text": text[-overlap:], "reasoning": reasoning[-overlap:]}

    async def _mask_new(self, request: ChatRequest, messages: Sequence[Message]) -> Sequence[Message]:
        """Mask the values in messages, of which only new ones are searched. Raises PolicyRefused, GuardUnavailable."""
        done = find_masked(messages, request.known, self._masked_as)
        new = messages[len(done.messages) :]
        spans, complete = await self._analyze(new)
        known = request.known if complete else None
        if sum(map(_count_characters, new)) > LARGE_CHARACTERS:
            return await asyncio.to_thread(self._mask, messages, spans, known, done)
        return self._mask(messages, spans, known, done)

    def _mask_replaced(
        self, given: Sequence[Message], judged: Sequence[Message], *, of_session: bool = True
    ) -> Sequence[Message]:
        """Search what services that see masked texts have put in the place of these. Raises PolicyRefused."""
        if not self.chosen.finding or judged is given:
            return judged
        places = [number for number, one in enumerate(judged) if one is not given[number]]
        if not places:
            return judged
        out, refused = list(judged), []
        masker = self._make_known_masker()
        for number in places:
            out[number], reasons = mask_message(judged[number], masker)
            refused += [(number, place, why) for place, why in reasons]
        self._report_masked(masker)
        return self._withhold(judged, out, refused, of_session=of_session) if refused else out

    @property
    def _masked_as(self) -> tuple[Any, ...]:
        """Under which the masked beginning of a conversation is known."""
        return "masked", self.chosen.digest, self._facts.scope

    def admit_locally(self, request: ChatRequest) -> Admitted | None:
        """Do what `admit` does with detectors alone: nothing is asked. None if that refuses the request, or if a
        service may find values in it, or refuse or replace it."""
        if any(rule.enforces for rule in self.chosen.analyzing):
            return None
        try:
            masked = tuple(self._mask(request.messages, {}, request.known))
            if self.chosen.judging and any(map(_has_text, _find_read(request.params.get("extra_body") or {}).values())):
                return None
            if not self._requests.has_passed(request, masked):
                return None
            return self._finish(request, masked)
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
        if _are_same(messages, request.messages) and not self.must_translate:
            return mark_admitted(replace(request, guard=self))
        masker, masking = self._make_known_masker(), self.chosen.masking
        if self.chosen.masks and masking.notice:
            messages = _add_notice(messages)
        params = _mask_params(request.params, masker)
        fields = masker.mask_value(request.caller_fields) if request.caller_fields else {}
        self._check_fields(masker)
        return mark_admitted(
            replace(
                request,
                messages=messages,
                source=None,
                passed=None,
                guard=self,
                params=params,
                caller_fields=fields,
            )
        )

    def _check_fields(self, masker: ValueMasker) -> None:
        """Raises PolicyRefused for a value in a field beside the conversation."""
        why = masker.refused
        if why is not None:
            self._questions.refuse(why.guard, why.reason, why.kind.lower(), "a field beside the messages")

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

    def _make_known_masker(self) -> ValueMasker:
        """Return one that knows all values of the request so far."""
        masker = self._make_masker({})
        masker.words.update(self.placeholders.words)
        return masker

    def _mask(
        self,
        messages: Sequence[Message],
        spans: Mapping[str, list[tuple[Span, SpanRule]]],
        known: KnownConversation | None,
        done: MaskedConversation | None = None,
    ) -> Sequence[Message]:
        """Mask the values in messages; see `mask_conversation`. Raises PolicyRefused."""
        chosen = self.chosen
        if not chosen.finding and not chosen.analyzing:
            return messages
        masker = self._make_masker(spans)
        made = mask_conversation(messages, masker, self.placeholders, known, self._masked_as, done)
        self._report_masked(masker)
        return self._withhold(messages, made.messages, made.refused) if made.refused else made.messages

    def _report_masked(self, masker: ValueMasker) -> None:
        for kind, count in masker.kinds.items():
            self._guards.observer.count_masked(kind, count)
        for rule in (*self.chosen.finding, *self.chosen.analyzing):
            if rule.api == "presidio" and (rule.observes or self.verdicts.get(rule.name) == "failed"):
                continue
            count = masker.counts.get(rule.name, 0)
            word = {"mask": "masked", "redact": "redacted", "reject": "found", "observe": "found"}[rule.action]
            self._questions.verdicts.setdefault(rule.name, f"{word}:{count}" if count else "pass")
            self._guards.count_check(rule.name, "request", "replace" if count and rule.action != "observe" else "pass")

    def _withhold(
        self,
        given: Sequence[Message],
        masked: Sequence[Message],
        refused: Sequence[tuple[int, int, Refused]],
        *,
        of_session: bool = True,
    ) -> Sequence[Message]:
        """Refuse the request for a new text with a value that is refused; withhold others. `of_session`: a later
        request has the texts again. Raises PolicyRefused."""
        last_answer, question, out = find_last_answer(given), find_question(given), list(masked)
        for number, index, why in refused:
            message, part = out[number], given[number].parts[index]
            rule = next(rule for rule in self.chosen.rules if rule.name == why.guard)
            is_new = number > last_answer and (part.kind != "tool_result" or rule.refuses_results)
            if is_new and of_session and isinstance(part, Text) and message.role == "user":
                behind = message.parts[index + 1 :] if number == question else given[question].parts
                is_new = not self._was_refused(rule, part.text, [one.text for one in behind if isinstance(one, Text)])
            if is_new:
                self._questions.refuse(why.guard, why.reason, why.kind.lower(), f"messages[{number}].content[{index}]")
            out[number] = _withhold_part(message, index, why)
            self._questions.verdicts[why.guard] = "withhold"
        return out

    def _was_refused(self, rule: GuardRule, text: str, behind: Sequence[str]) -> bool:
        """Whether a guard with detectors has refused a text of the user in an earlier request, in which the last of the
        texts behind it was another one. If not, it has refused it now."""
        memory, digest = self._guards.memory, self._guards.digest(rule)
        key = make_key(digest, self._facts.scope, TextPart("", "user", "text", text))
        last = make_key(b"last", "", TextPart("", "user", "text", behind[-1] if behind else ""))
        known = memory.get(key)
        if known is not None and behind and known != last:
            return True
        memory.put(key, last, rule.remember_seconds)
        return False

    async def _analyze(self, messages: Sequence[Message]) -> tuple[dict[str, list[tuple[Span, SpanRule]]], bool]:
        """Return the values that Presidio has found, by text, and whether it has seen all. Raises GuardUnavailable."""
        found: dict[str, list[tuple[Span, SpanRule]]] = {}
        complete = True
        texts = list(dict.fromkeys(_list_searched(messages))) if self.chosen.analyzing else []
        for rule in self.chosen.analyzing:
            shown = await self._hide(rule, texts)
            if rule.observes:
                self._guards.run_aside(self._observe_spans(rule, shown))
                continue
            spans, failure = await self._find_spans(rule, shown)
            if failure is not None:
                complete = False
                self._questions.fail(rule, "request", failure)
            for text, places in spans.items():
                found.setdefault(text, []).extend((span, SpanRule(rule.name, rule.action)) for span in places)
        return found, complete

    async def _hide(self, rule: GuardRule, texts: Sequence[str]) -> Mapping[str, HiddenText]:
        """Return the texts as Presidio gets them: without the values that detectors find, unless it sees originals."""
        if rule.sees_original or not self.chosen.finding:
            return {text: read_escapes(text) or HiddenText(text) for text in texts}
        masker = self._make_masker({})
        if sum(map(len, texts)) > LARGE_CHARACTERS:
            return await asyncio.to_thread(lambda: {text: masker.hide(text) for text in texts})
        return {text: masker.hide(text) for text in texts}

    async def _find_spans(
        self, rule: GuardRule, shown: Mapping[str, HiddenText]
    ) -> tuple[dict[str, list[Span]], GuardError | None]:
        """Return the values that Presidio finds, by the original texts, and why there is nothing of some."""
        spans, failure = await self._questions.find_spans(
            rule, list(dict.fromkeys(hidden.text for hidden in shown.values()))
        )
        found: dict[str, list[Span]] = {}
        for text, hidden in shown.items():
            for start, end, kind in spans.get(hidden.text, ()):
                place = hidden.find_original(start, end)
                if place is not None:
                    found.setdefault(text, []).append(Span(*place, kind))
                    self._questions.values[text[place[0] : place[1]]] = kind
        return found, failure

    async def _observe_spans(self, rule: GuardRule, shown: Mapping[str, HiddenText]) -> None:
        spans, failure = await self._find_spans(rule, shown)
        count = sum(map(len, spans.values()))
        log.info("request %s: the guard %s would have found %d values", self._facts.request_id, rule.name, count)
        if failure is not None:
            self._questions.fail(rule, "request", failure)

    # Files.

    async def admit_files(self, files: Mapping[Any, Attachment]) -> dict[Any, Attachment]:
        out = dict(files)
        for item, file in files.items():
            if isinstance(file, FileText) and file.sections:
                try:
                    out[item] = replace(file, sections=await self._admit_sections(file.sections, item.url))
                except PolicyRefused as error:
                    if item.required:
                        raise
                    out[item] = Unreadable(f"is withheld by policy: {error.message}")
        return out

    async def _admit_sections(self, sections: Sequence[Section], url: str) -> tuple[Section, ...]:
        """Raises ParleyError."""
        names = [section.name for section in sections if section.name]
        texts = [*(section.text for section in sections), *names]
        admitted = await self.admit_texts(texts, "file", url)
        new_names = dict(zip(names, admitted[len(sections) :], strict=True))
        return tuple(
            [
                section
                if text == section.text and new_names.get(section.name, "") == section.name
                else replace(section, text=text, name=new_names.get(section.name, ""))
                for section, text in zip(sections, admitted[: len(sections)], strict=True)
            ]
        )

    def mask_quotes(self, request: Admitted) -> Admitted:
        if not self._words_of_files:
            return request
        masked = mask_quotes(request.messages, self._make_masker({}), self._words_of_files)
        return mark_admitted(replace(request, messages=tuple(masked)))

    async def admit_texts(self, texts: Sequence[str], kind: PartKind = "text", url: str = "") -> list[str]:
        """Return texts that came with a request, as its model may have them. Raises ParleyError."""
        message = Message("user", tuple(map(Text, texts)))
        request = ChatRequest(self._facts.model, (message,))
        messages: Sequence[Message] = await self._requests.judge(
            request, request.messages, sees_original=True, text_kind=kind, of_session=False
        )
        spans, _ = await self._analyze(messages)
        masker = self._make_masker(spans)
        done = await asyncio.to_thread(mask_conversation, messages, masker, self.placeholders, None)
        if url and masker.words:
            self._words_of_files[url] = masker.words
        self._report_masked(masker)
        masked = self._withhold(messages, done.messages, done.refused, of_session=False)
        judged = await self._requests.judge(request, masked, sees_original=False, text_kind=kind, of_session=False)
        judged = self._mask_replaced(masked, judged, of_session=False)
        return [part.text for part in judged[0].parts if isinstance(part, Text)]

    async def admit_fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a request that is no conversation, as its model may have them. Raises ParleyError."""
        read = {name: value for name, value in fields.items() if name in CONTENT_FIELDS}
        tokens = next((name for name, value in read.items() if _has_numbers(value)), None)
        if tokens is not None and self.chosen.enforces_requests:
            text = "guards check the requests for this model, and cannot read tokens: send text"
            raise Unsupported(f"{text} (for langchain's OpenAIEmbeddings: check_embedding_ctx_length=False)", tokens)
        texts = [*dict.fromkeys(text for value in read.values() for text in list_texts(value))]
        admitted = dict(zip(texts, await self.admit_texts(texts), strict=True)) if texts else {}
        masker = self._make_masker({})
        out = {
            name: replace_leaves(value, admitted) if name in read else masker.mask_value(value)
            for name, value in fields.items()
        }
        self._check_fields(masker)
        return out

    async def admit_own_fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the client's own fields, of which `admit_fields` has seen a translation, as its model may have them.
        Raises ParleyError."""
        texts = [*dict.fromkeys(_list_named(fields, _OWN_TEXTS))]
        admitted = dict(zip(texts, await self.admit_texts(texts), strict=True)) if texts else {}
        masker = self._make_known_masker()
        found: dict[str, Any] = masker.mask_value(replace_leaves(dict(fields), admitted))
        self._check_fields(masker)
        return found

    async def admit_result(self, name: str, text: str) -> str:
        """Return the text of a tool's result as the client may have it, where a guard withholds it. What is masked in
        it for the model is known when that gets it. Raises ParleyError."""
        message = Message("tool", (ToolResult((Text(text),), name),))
        request = ChatRequest(self._facts.model, (message,))
        seen: Sequence[Message] = await self._requests.judge(request, (message,), sees_original=True)
        spans, _ = await self._analyze(seen)
        masked = mask_conversation(seen, self._make_masker(spans), self.placeholders, None)
        withheld = self._withhold(seen, masked.messages, masked.refused)
        judged = await self._requests.judge(request, withheld, sees_original=False)
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

    # Replies.

    def restore_text(self, text: str) -> str:
        return restore_text(text, self.placeholders) if "text" in self._restored else text

    def restore_events(self, events: Sequence[Event]) -> list[Event]:
        """Return all events of a reply as its client gets them."""
        return RestoringStage(self.placeholders, self._restored).feed([*events]) if self._restored else [*events]

    def mask_text(self, text: str) -> str:
        return self._make_known_masker().mask_known(text)

    def mask_output(self, text: str) -> str:
        """Return a text that is JSON, or was to be, with the values masked again."""
        return self._make_known_masker().mask_arguments(text, of_model=True).text

    def clean_fault(self, fault: Fault) -> Fault:
        if not self.chosen.replying:
            return fault
        message = self._replies.clean_message(fault.message)
        return (
            fault if fault.detail is None and message == fault.message else replace(fault, message=message, detail=None)
        )

    def watch(self, reply: Reply) -> Reply:
        chosen = self.chosen
        if not chosen.replying and not chosen.watching:
            return reply
        return WatchedReply(
            reply,
            self._replies.judge,
            self._replies.observe,
            self._guards.run_aside,
            chosen.replying,
            chosen.watching,
            self._replies.remember,
            self.clean_fault,
            self._earlier,
        )


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


def _are_same(messages: Sequence[Message], others: Sequence[Message]) -> bool:
    return len(messages) == len(others) and all(map(is_, messages, others))


def _keep_reasoning(message: Message) -> Message:
    return replace(message, parts=tuple([part for part in message.parts if isinstance(part, Reasoning)]))


def _replace_reasoning(message: Message, thought: Message) -> Message:
    """Return a message with the reasoning of another one, of which there is as much."""
    new = iter(thought.parts)
    parts = tuple([next(new) if isinstance(part, Reasoning) else part for part in message.parts])
    return replace(message, parts=parts, extra=thought.extra)


def list_texts(value: Any) -> Iterator[str]:
    """Yield the texts of a value as of JSON; data of media are none."""
    if isinstance(value, str):
        if not _MEDIA_DATA.match(value):
            yield value
    elif isinstance(value, list | dict):
        for item in value if isinstance(value, list) else value.values():
            yield from list_texts(item)


def _find_read(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a model may read, of those that the gateway passes on: all but known options, and what
    chooses a server, which may have keys."""
    return {name: value for name, value in extra.items() if name in _READ or not _is_option(name)}


def _is_option(name: str) -> bool:
    return name in SERVER_PARAMS or chooses_route(name)


def _has_text(value: Any) -> bool:
    return next(list_texts(value), None) is not None


def _list_named(value: Any, names: Collection[str]) -> Iterator[str]:
    """Yield the texts that fields of these names have, at any depth."""
    for name, item in value.items() if isinstance(value, Mapping) else ():
        if isinstance(item, str) and name in names:
            yield item
        yield from _list_named(item, names)
    for item in value if isinstance(value, list) else ():
        yield from _list_named(item, names)


def _has_numbers(value: Any) -> bool:
    """Whether a value as of JSON has a list with numbers of tokens in the place of a text."""
    if isinstance(value, dict):
        return any(map(_has_numbers, value.values()))
    return isinstance(value, list) and any(type(item) is int or _has_numbers(item) for item in value)


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


def _count_characters(message: Message) -> int:
    return sum(len(getattr(part, "text", "")) for part in message.parts) + sum(
        len(item.text)
        for part in message.parts
        if part.kind == "tool_result"
        for item in part.content
        if isinstance(item, Text)
    )


def _list_searched(messages: Sequence[Message]) -> list[str]:
    """Return the texts and names of files in which values are searched: those of the assistant are not among them."""
    out: list[str] = []
    for message in messages:
        for part in message.parts if message.role != "assistant" else ():
            if isinstance(part, Text):
                out.append(part.text)
            elif part.kind == "tool_result":
                out += [text for item in part.content if (text := item.text if isinstance(item, Text) else item.name)]
            elif isinstance(part, Media) and part.name:
                out.append(part.name)
    return out


def _add_notice(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    first = messages[0] if messages else None
    if first is not None and first.role == "system":
        return (replace(first, parts=(*first.parts, Text(NOTICE))), *messages[1:])
    return (Message("system", (Text(NOTICE),), path="messages"), *messages)


def _mask_params(params: Mapping[str, Any], masker: ValueMasker) -> Mapping[str, Any]:
    """Mask all texts but those of schemas and choices of tools."""
    texts = [name for name, value in params.items() if isinstance(value, str) and name not in _CHOICES]
    names = [*texts, *(name for name in _MASKED_FIELDS if params.get(name) is not None)]
    return {**params, **{name: masker.mask_value(params[name]) for name in names}} if names else params
