"""Turn the chunks of a model server's reply into events: one state machine for streamed and whole replies.

`docs/reference/assembly.md` lists the rules and the servers that made each of them necessary. Later stages
handle thinking in tags and white space between messages.

There is a chunk for every token, and nearly every chunk only adds to one kind of content. `_feed_usual_chunk` takes
those, with the same result as `_feed_chunk`, which takes all others. After a text, further texts of its kind change
nothing but the events.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from app.chat.events import Event, Extra, Failed, Fault, Finish, ReasoningDelta, TextDelta
from app.chat.message_fields import BLOCKS, complete_blocks, make_field_details
from app.upstream import faults
from app.upstream.chat_completions.other_choices import OtherChoices, get_calls
from app.upstream.chat_completions.reasoning_details import ReasoningDetails, RepeatedTexts, get_details_text
from app.upstream.outputs import AudioParts, parse_picture
from app.upstream.reply.chunk import (
    Chunk,
    ChunkChoice,
    ChunkDelta,
    ChunkText,
    ToolCallFragment,
    get_text,
    make_chunk,
)
from app.upstream.reply.finish import STOP, Ending, find_ending, is_reason
from app.upstream.reply.sse import ErrorEvent, MalformedData, StreamDone
from app.upstream.reply.surrogates import SurrogateJoiner
from app.upstream.reply.tool_calls import MAX_CALLS, ToolCallAssembler
from app.upstream.reply.usage import merge_usage, normalize_usage

_NOTHING = ChunkDelta()
_QUIET_KEYS = frozenset(
    ("id", "object", "created", "created_at", "model", "usage", "x_groq", "base_resp", "citations", "search_results")
    + ("provider", "system_fingerprint", "service_tier", "type", "event", "status", "timings", "time", "timestamp")
    + ("request_id", "ping", "heartbeat", "obfuscation", "choices")
)
"""The keys of objects without choices that servers send as keep-alives, or with usage or citations alone."""
_USAGE_KEYS = frozenset(("id", "object", "created", "model", "usage", "choices", "system_fingerprint", "service_tier"))
"""The keys of OpenAI's chunk with the usage."""
_NOT_A_REPLY = "not_a_reply"
"""The cause of this name, `causes.NOT_A_REPLY`."""
_TOO_MANY_CALLS = f"the model server's reply has more than {MAX_CALLS} tool calls"


class Assembler:
    """Takes the items of each read and emits events, the last of them exactly one `Finish` or `Failed`."""

    started = False
    """Whether any chunk of a reply came, even an empty one."""
    ended = False
    _stopped = False
    """Nothing more is read but usage: the reply has ended, or an error has come after its finish reason."""
    _usage: dict[str, Any] | None = None
    _reason: str | None = None
    _stopped_by: str | None = None
    _foreign: dict[str, Any] | None = None
    """The first object that is not a part of a reply and says nothing that is known."""
    _audio: AudioParts | None = None
    _details: ReasoningDetails | None = None
    _cacheable = True
    """False once something came that may mean that the reply is not whole."""
    _first_content = ""
    """The first text of the content."""
    _last_delta: ChunkDelta | None = None
    """What came with the first finish reason."""
    _has_message = False
    """Whether a complete message came, which needs no finish reason."""
    _message_texts: "tuple[_MessageText, _MessageText] | None" = None
    """The reasoning and the content of messages, if a message came before any delta."""
    _text_kind: type[TextDelta | ReasoningDelta] | None = None
    """The kind of the last text, if nothing but another text came after it and no call waits for one."""
    _last_received = 0

    def __init__(self, reply_id: str) -> None:
        self._calls = ToolCallAssembler(reply_id)
        self._surrogates = SurrogateJoiner()
        self._seen_fields: set[str] = set()
        """The kinds of content that deltas have brought: reasoning, content, refusal, calls and so on."""
        self._sources: dict[str, Any] = {}
        """The sources that the reply cites, from the last chunk that had them (Perplexity)."""
        self._warnings: list[str] = []
        self._choices = OtherChoices()
        self._repeated = RepeatedTexts()
        self._block_texts: list[str] = []
        """The texts of `thinking_blocks` since the last signature."""
        self._ending: Ending = STOP
        """What the finish reason means."""

    @property
    def finishing(self) -> bool:
        """Whether a finish reason came, after which only usage can follow."""
        return self._reason is not None or self._choices.held_finish

    def check_progress(self) -> bool:
        """Whether tool calls grew since the last call of this method, even if no event was emitted for them."""
        received = self._calls.received + self._choices.received
        before, self._last_received = self._last_received, received
        return received != before

    def feed(self, items: Sequence[Chunk | ChunkText | None | StreamDone | ErrorEvent | MalformedData]) -> list[Event]:
        out: list[Event] = []
        for item in items:
            if type(item) is self._text_kind:
                out.append(item)
                continue
            if self._stopped:
                break
            self._text_kind = None
            if type(item) is Chunk:
                if not self._feed_usual_chunk(item, out):
                    self._feed_chunk(item, out)
            elif type(item) is TextDelta or type(item) is ReasoningDelta or type(item) is ToolCallFragment:
                if not self._feed_text(item, out):
                    self._feed_chunk(make_chunk(item), out)
            elif item is not None:
                assert type(item) is StreamDone or type(item) is ErrorEvent or type(item) is MalformedData
                self._feed_mark(item, out)
            if self._calls.too_many and not self.ended:
                self._fail(faults.make_fault("upstream_protocol", _TOO_MANY_CALLS, cause="reply_too_large"), out)
        if self._stopped and not self.ended:
            self._read_late(items, out)
        return out

    def _read_late(self, items: Sequence[Any], out: list[Event]) -> None:
        """Take the usage that comes behind a late error (OpenRouter). Usage that is known already changes nothing."""
        for item in items:
            if type(item) is StreamDone:
                self._finish(out)
                return
            if type(item) is Chunk:
                if item.usage:
                    self._add_usage(item.usage)
                self._update_usage(item, (item.choices or [ChunkChoice()])[0])

    def _feed_mark(self, item: StreamDone | ErrorEvent | MalformedData, out: list[Event]) -> None:
        """Take what the framing says: that the reply is over, or has failed."""
        if type(item) is ErrorEvent:
            self._on_error(self._make_named_fault(item.data), out)
        elif type(item) is MalformedData:
            if faults.is_skippable(item.data, item.reason):
                self._cacheable = False
                self._warn(faults.describe_skipped(item.data))
            else:
                self._on_error(faults.make_protocol_fault(item.data, item.reason), out)
        else:
            self._settle_choices(out)
            if self.ended:
                return
            if self._reason or self._seen_fields:
                self._finish(out)
            else:
                self._fail(self._make_incomplete_fault("the model server ended its reply without any part of it"), out)

    def _feed_usual_chunk(self, chunk: Chunk, out: list[Event]) -> bool:
        """Take a chunk that adds to one kind of content and does nothing else. Any other is left alone: False."""
        text = get_text(chunk)
        if text is None or not self._feed_text(text, out):
            return False
        if chunk.usage:
            self._add_usage(chunk.usage)
        return True

    def _feed_text(self, text: ChunkText, out: list[Event]) -> bool:
        """Take the only part of a chunk. False: it was not taken, because more than adding it is to be done."""
        if self._surrogates.held or self._choices.own_index or self._audio is not None:
            return False
        if type(text) is TextDelta or type(text) is ReasoningDelta:
            if self._calls.opened:
                self._calls.seal_last_call(text.text, out)
            out.append(text)
            if type(text) is ReasoningDelta:
                self._seen_fields.add("reasoning")
            elif not self._first_content:
                self._first_content = text.text
                self._seen_fields.add("content")
            if not self._calls.opened or not self._calls.has_unsealed:
                self._text_kind = type(text)
        elif type(text) is not ToolCallFragment or not self._calls.add_arguments(text, out):
            return False
        self.started = True
        return True

    def _feed_chunk(self, chunk: Chunk, out: list[Event]) -> None:
        if chunk.usage:
            self._add_usage(chunk.usage)
        if chunk.error and chunk.choices and faults.is_empty_error(chunk.error):
            chunk.error = None
        if chunk.error or chunk.object == "error":
            self._on_error(faults.from_object(chunk.whole, None), out)
            return
        if chunk.base_resp and _is_base_resp_error(chunk.base_resp):
            self._on_error(faults.from_object({"base_resp": chunk.base_resp}, None), out)
            return
        if chunk.citations or chunk.search_results:
            self._collect_sources(chunk)
        choices = chunk.choices
        if not choices:
            self._feed_object(chunk, out)
            return
        self.started = True
        if len(choices) > 1 or (choices[0].index or 0) != self._choices.own_index or self._choices.held:
            self._feed_choices(chunk, choices, out)
        else:
            self._feed_choice(chunk, choices[0], out)

    def _feed_choice(self, chunk: Chunk, choice: ChunkChoice, out: list[Event]) -> None:
        """Take what a chunk has for the choice that is the reply."""
        self._choices.own_came = True
        delta = choice.delta
        if choice.text and choice.message is None and (delta is None or delta == ChunkDelta(role=delta.role)):
            choice.delta = ChunkDelta(content=choice.text)
        if self._skip_tool_result(choice):
            return
        is_last = is_reason(choice.finish_reason)
        if not is_last and choice.native_finish_reason is not None:
            is_last = _has_failed(choice.native_finish_reason)
        if is_last and self._is_last_again(choice):
            return
        if chunk.ragged or self._surrogates.held:
            self._join_surrogates(choice)
        if choice.delta is not None and choice.delta != _NOTHING:
            self._feed_delta(choice.delta, out)
        if not self.ended and choice.message is not None and (choice.delta is None or is_last):
            self._feed_message(choice.message, out)
        if chunk.x_groq or choice.usage:
            self._update_usage(chunk, choice)
        if choice.error or is_last:
            self._set_finish_reason(choice, out)

    def _is_last_again(self, choice: ChunkChoice) -> bool:
        """Whether this is the last part of the reply once more: a proxy has sent its chunk twice
        (ranxianglei/billion-context#429)."""
        delta = choice.delta
        if self._reason is None:
            self._last_delta = delta
            return False
        has_text = delta is not None and bool(delta.content or delta.reasoning_content or delta.reasoning)
        again = has_text and delta == self._last_delta
        if again:
            self._warn("the model server sent the end of its reply twice; the second one is left out")
        return again

    def _feed_choices(self, chunk: Chunk, choices: list[ChunkChoice], out: list[Event]) -> None:
        """Take a chunk that has other choices (rule 11)."""
        other = self._choices
        if self._seen_fields:
            other.own_came = other.own_has_content = True
        own = [choice for choice in choices if (choice.index or 0) == other.own_index]
        if own:
            self._feed_choice(chunk, own[0], out)
            other.own_has_content = bool(self._seen_fields)
        for choice in choices:
            if (choice.index or 0) != other.own_index:
                other.add(chunk, choice)
        for choice in own[1:]:
            self._feed_second(chunk, choice, out)
        if other.must_adopt:
            self._adopt_held(out)

    def _feed_second(self, chunk: Chunk, choice: ChunkChoice, out: list[Event]) -> None:
        """Take the calls of a second choice with the index of the kept one, which has none."""
        if self.ended or (self._calls.opened and not self._choices.continues_own):
            return
        calls = get_calls(choice)
        if calls is not None:
            self._choices.continues_own = True
            self._feed_other_calls(calls, out, whole=choice.delta is None, ragged=chunk.ragged)
        if is_reason(choice.finish_reason):
            self._set_finish_reason(choice, out)

    def _feed_other_calls(self, delta: ChunkDelta, out: list[Event], *, whole: bool, ragged: bool) -> None:
        if ragged or self._surrogates.held:
            self._surrogates.join(delta)
        self._feed_delta(delta, out, whole=whole)

    def _adopt_held(self, out: list[Event]) -> None:
        """Read the choice that came instead of choice 0 as the reply."""
        for chunk, choice in self._choices.adopt():
            if not self.ended:
                self._feed_choice(chunk, choice, out)

    def _adopt_instead(self, out: list[Event]) -> None:
        """At the end of the reply, read another choice in place of one that has no content, with its finish reason if
        it has one."""
        reason, ending = self._reason, self._ending
        self._forget_reason()
        self._adopt_held(out)
        if self._reason is None:
            self._reason, self._ending = reason, ending

    def _forget_reason(self) -> None:
        """A method of its own: mypyc takes an attribute that a method has set to None for None to the method's end."""
        self._reason = None

    def _settle_choices(self, out: list[Event]) -> None:
        """At the end of the reply, take another choice if its own has no content, and the calls of others if its own
        has none. May be called again."""
        other = self._choices
        if other.settled or not other.received:
            return
        other.settled = True
        if other.held and not self._seen_fields:
            self._adopt_instead(out)
        if not self._calls.opened:
            self._take_other_calls(out)

    def _take_other_calls(self, out: list[Event]) -> None:
        other = self._choices
        for delta, whole, ragged in other.take_calls():
            if self.ended:
                return
            self._feed_other_calls(delta, out, whole=whole, ragged=ragged)
        if self._calls.too_many:
            self._fail(faults.make_fault("upstream_protocol", _TOO_MANY_CALLS, cause="reply_too_large"), out)
        elif self._calls.opened and self._reason is None and other.finish is not None:
            self._set_finish_reason(other.finish, out)

    def _on_error(self, fault: Fault, out: list[Event]) -> None:
        """Rule 8: after a finish reason the reply counts as a success and the error becomes a warning. Only usage can
        follow."""
        self._settle_choices(out)
        if self.ended:
            return
        if self._reason:
            self._warn_late(fault.message)
            self._stopped = True
        else:
            self._fail(fault, out)

    def _collect_sources(self, chunk: Chunk) -> None:
        for name in ("citations", "search_results"):
            if value := getattr(chunk, name):
                self._sources[name] = value

    def _join_surrogates(self, choice: ChunkChoice) -> None:
        if choice.delta is not None:
            self._surrogates.join(choice.delta)
        if choice.message is not None:
            self._surrogates.join_whole(choice.message)

    def _skip_tool_result(self, choice: ChunkChoice) -> bool:
        """Leave out the result of a tool that the server ran itself (MiniMax's web search), and return whether it is
        one. Its finish reason is that of the tool's turn, not of the reply."""
        message = choice.delta or choice.message
        if message is None or not message.is_tool_result:
            return False
        self._calls.answer(message.tool_call_id)
        self._warn("the model server ran a tool of its own within the reply: its call and its result are left out")
        return True

    def _feed_delta(self, delta: ChunkDelta, out: list[Event], *, whole: bool = False) -> None:
        details = delta.reasoning_details
        if details and not whole:
            details = self._repeated.cut(details)
        reasoning = self._find_reasoning(delta, details, whole=whole)
        if reasoning:
            self._calls.seal_last_call(reasoning, out)
            out.append(ReasoningDelta(reasoning))
            self._seen_fields.add("reasoning")
        if details:
            self._feed_details(details, out, whole=whole)
        if delta.is_odd:
            self._feed_opaque_parts(delta, out)
        has_begun = bool(self._first_content)
        if content := delta.content:
            self._first_content = self._first_content or content
            self._add_text(content if self._audio is None else self._audio.add_content(content), out)
            self._seen_fields.add("content")
        if delta.refusal:
            self._calls.seal_last_call(delta.refusal, out)
            out.append(TextDelta(delta.refusal, refusal=True))
            self._seen_fields.add("refusal")
        if delta.audio or delta.annotations or delta.images or delta.extra_content is not None or delta.unread:
            if delta.audio and self._audio is None:
                self._audio = AudioParts(self._first_content, is_all=not has_begun)
            self._feed_other_parts(delta, out)
        if delta.tool_calls:
            self._feed_calls(delta.tool_calls, out, whole=whole)
        elif delta.function_call is not None:
            self._feed_calls([ToolCallFragment(index=0, function=delta.function_call)], out, whole=False)

    def _find_reasoning(self, delta: ChunkDelta, details: list[Any] | None, *, whole: bool) -> str | None:
        reasoning = delta.reasoning_content or delta.reasoning or delta.reasoning_text
        if details and not reasoning:
            reasoning = get_details_text(details)
        has_blocks = delta.block_text or delta.signed_blocks
        return None if has_blocks and not whole and self._repeats_blocks(delta, reasoning) else reasoning

    def _repeats_blocks(self, delta: ChunkDelta, reasoning: str | None) -> bool:
        """Whether the signed block of a delta has the texts of all blocks before it, and the delta no other reasoning:
        LiteLLM repeats them with the signature (open-webui/open-webui#29860)."""
        text = delta.block_text or ""
        known = "".join(self._block_texts)
        is_repeated = text != "" and bool(delta.signed_blocks) and reasoning == text == known
        if delta.signed_blocks:
            delta.signed_blocks = complete_blocks(delta.signed_blocks, "" if is_repeated else known)
            self._block_texts.clear()
        else:
            self._block_texts.append(text)
        return is_repeated

    def _feed_opaque_parts(self, delta: ChunkDelta, out: list[Event]) -> None:
        if delta.signed_blocks:
            out.append(Extra({"reasoning_details": make_field_details({BLOCKS: delta.signed_blocks})}))
        if delta.opaque_fields:
            self._seen_fields.add("opaque")
            out.append(Extra({"reasoning_details": make_field_details(delta.opaque_fields)}))

    def _feed_details(self, details: list[Any], out: list[Event], *, whole: bool) -> None:
        self._seen_fields.add("details")
        known = self._details = self._details or ReasoningDetails()
        items = known.add_whole(details) if whole else known.add(details)
        if items:
            out.append(Extra({"reasoning_details": items}))

    def _add_text(self, text: str, out: list[Event]) -> None:
        if text:
            self._calls.seal_last_call(text, out)
            out.append(TextDelta(text))

    def _feed_calls(self, fragments: list[ToolCallFragment], out: list[Event], *, whole: bool) -> None:
        self._seen_fields.add("calls")
        for fragment in fragments:
            if fragment.function is None and _is_foreign(fragment):
                self._fail(_unsupported_call_fault(fragment), out)
                return
        self._calls.feed(fragments, out, whole=whole)

    def _feed_other_parts(self, delta: ChunkDelta, out: list[Event]) -> None:
        """Emit what a delta has beside text, reasoning and calls, as part of the current message."""
        if delta.audio and self._audio is not None:
            self._add_text(self._audio.add(delta.audio), out)
            self._seen_fields.add("audio")
        if delta.annotations:
            out.append(Extra({"annotations": delta.annotations}))
            self._seen_fields.add("annotations")
        for item in delta.images or ():
            self._seen_fields.add("images")
            picture = parse_picture(item)
            if picture is None:
                self._warn("the model server's reply has an image without a usable URL; it is left out")
            else:
                out.append(picture)
        if delta.extra_content is not None:
            out.append(Extra({"extra_content": delta.extra_content}))
        for part in delta.unread or ():
            self._warn(f"left out of the model server's reply, because the gateway cannot read it: {part}")

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)

    def _warn_late(self, message: str) -> None:
        self._cacheable = False
        self._warn(f"the model server sent an error after the end of its reply: {message}")

    def _feed_message(self, message: ChunkDelta, out: list[Event]) -> None:
        """Take a whole message. Fields that deltas already brought are skipped: Perplexity repeats them here. If there
        are several messages and no deltas, each has the next part of the texts, or all of them so far."""
        seen = frozenset(self._seen_fields)
        self._keep_new_texts(message, seen)
        if "reasoning" in seen:
            message.reasoning_details = message.signed_blocks = None
        if "details" in seen:
            message.reasoning_details = None
        if "opaque" in seen:
            message.opaque_fields = None
        if "refusal" in seen:
            message.refusal = None
        if "calls" in seen:
            message.tool_calls = message.function_call = None
        if "audio" in seen:
            message.audio = None
        if "annotations" in seen:
            message.annotations = None
        if "images" in seen:
            message.images = None
        self._feed_delta(message, out, whole=True)
        self._has_message = self._has_message or (not seen and bool(self._seen_fields))

    def _keep_new_texts(self, message: ChunkDelta, seen: frozenset[str]) -> None:
        """Leave in a message only the reasoning and the content that are new. `seen` is what came before."""
        reasoning = message.reasoning_content or message.reasoning or message.reasoning_text
        message.reasoning = message.reasoning_text = None
        if not seen:
            self._message_texts = (_MessageText(), _MessageText())
        elif self._message_texts is not None:
            self._has_message = False  # it is one of several, and the end of the body does not complete it
        if self._message_texts is not None:
            message.reasoning_content = self._message_texts[0].take_new(reasoning or "")
            message.content = self._message_texts[1].take_new(message.content or "")
            return
        message.reasoning_content = None if "reasoning" in seen else reasoning
        if "content" in seen:
            message.content = None

    def _feed_object(self, chunk: Chunk, out: list[Event]) -> None:
        """Take an object without choices: a failure, a keep-alive, or one that says nothing that is known."""
        if chunk.x_groq:
            self._update_usage(chunk, ChunkChoice())
        value = chunk.whole or {}
        if chunk.object == "chat.completion.chunk" and value.keys() <= _USAGE_KEYS:
            return
        if faults.reports_failure(value):
            self._on_error(faults.from_object(value, None), out)
        elif chunk.choices is None and not value.keys() <= _QUIET_KEYS:
            self._foreign = self._foreign or value
            if self.started and self._reason is None and self._cacheable:
                self._cacheable = False
                keys = _describe_keys(value)
                self._warn(
                    f"the model server sent an object that is not a part of a reply, with {keys}; it is left out"
                )

    def _update_usage(self, chunk: Chunk, choice: ChunkChoice) -> None:
        nested = chunk.x_groq.get("usage") if chunk.x_groq else None
        usage = choice.usage or nested
        if not chunk.usage and isinstance(usage, dict) and usage:
            self._add_usage(usage)

    def _add_usage(self, usage: dict[str, Any]) -> None:
        """Rule 9: servers send the usage once, in parts, or with each chunk what it is so far."""
        self._usage = usage if self._usage is None else merge_usage(self._usage, usage)

    def read_usage(self) -> dict[str, Any] | None:
        """Return the usage that the server has reported so far, normalized."""
        return normalize_usage(self._usage)

    def _set_finish_reason(self, choice: ChunkChoice, out: list[Event]) -> None:
        if self.ended:  # a tool call of an unsupported type has failed the reply
            return
        if choice.error:
            self._fail(faults.from_object({"error": choice.error}, None), out)
            return
        stopped_by = choice.stop_reason or choice.matched_stop
        self._stopped_by = stopped_by if isinstance(stopped_by, str) else None
        if self._reason is not None:
            return
        word, native = choice.finish_reason or "", choice.native_finish_reason
        ending = find_ending(word)
        if isinstance(native, str) and ending.fault is None and ending.reason == "stop":
            exact = find_ending(native)
            if exact.fault is not None or exact.reason in ("length", "content_filter"):
                word, ending = native, exact
        if ending.fault is not None:
            self._fail(faults.make_fault(ending.fault, f"the model server ended the reply with {word[:200]!r}"), out)
        else:
            self._reason, self._ending = word, ending
            if not ending.known:
                self._cacheable = False
                self._warn(f"the model server's finish reason {word[:200]!r} is not known: it was read as stop")

    def _finish(self, out: list[Event]) -> None:
        if self._surrogates.held:
            self._feed_delta(self._surrogates.close(), out)
        if self._details is not None and (items := self._details.close()):
            out.append(Extra({"reasoning_details": items}))
        if self._sources:
            out.append(Extra(self._sources))
        if self._audio is not None:
            self._add_text(self._audio.take_rest(), out)
            out += self._audio.close(self._warn)
        self._calls.close(out)
        if self._calls.nameless:
            self._cacheable = False
            self._warn("a tool call of the model server's reply has no name: its arguments became text")
        native = self._reason
        reason = self._ending.reason
        if reason in ("stop", "tool_calls"):
            reason = "tool_calls" if self._calls else "stop"
        is_usual = native is None or native == reason or (reason == "tool_calls" and native == "stop")
        native = None if is_usual else native
        warnings = tuple(self._warnings)
        out.append(
            Finish(
                reason,
                self.read_usage(),
                native,
                warnings,
                cacheable=self._cacheable,
                stopped_by=self._stopped_by if reason == "stop" else None,
            )
        )
        self.ended = self._stopped = True

    def _fail(self, fault: Fault, out: list[Event]) -> None:
        """End with a fault whose status is 200: the response's head had announced a success."""
        self._settle_choices(out)
        if self.ended:
            return
        self._feed_delta(self._surrogates.close(), out)
        if self._audio is not None:
            self._add_text(self._audio.take_rest(), out)
        self._calls.flush(out)
        out.append(Failed(msgspec.structs.replace(fault, status=200)))
        self.ended = self._stopped = True

    def close(self, junk: bytes = b"", fault: Fault | None = None) -> list[Event]:
        """End the reply with its body. Rule 8: with a finish reason it is a success, without one a fault.

        `fault` says what broke the body, None for a clean end. `junk` is the first line that is not part of a reply.
        """
        out: list[Event] = []
        self._text_kind = None
        if self.ended:
            return out
        self._settle_choices(out)
        self._end(junk, fault, out)
        return out

    def _end(self, junk: bytes, fault: Fault | None, out: list[Event]) -> None:
        if self.ended:  # what another choice brought has failed the reply
            return
        if self._reason or (self._has_message and fault is None):
            self._finish(out)
        elif fault is not None:
            self._fail(fault, out)
        elif junk and not self.started and self._foreign is None:
            self._fail(faults.make_protocol_fault(junk), out)
        else:
            text = "the model server's reply ended before it was finished"
            self._fail(self._make_incomplete_fault(text), out)

    def _make_named_fault(self, data: bytes) -> Fault:
        """Build the fault of an event that is named an error. Without data, the object that came before is its data."""
        if self._foreign is not None and not data.strip():
            return faults.from_object(self._foreign, None)
        return faults.from_body(data, None)

    def _make_incomplete_fault(self, message: str) -> Fault:
        """Build the fault of a reply that is not whole, in the words of the server if it has sent any."""
        foreign = self._foreign
        if foreign is None or self._seen_fields:
            return faults.make_fault("upstream_incomplete", message)
        if not faults.is_success(faults.find_message(foreign)):
            return faults.from_object(foreign, None)
        message = f"the model server sent no chat completion but an object with {_describe_keys(foreign)}"
        return faults.make_fault("upstream_incomplete", f"{message}; is its base_url right?", cause=_NOT_A_REPLY)


class _MessageText:
    """A text of which several messages have the next part each, or all of it so far."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0

    def take_new(self, text: str) -> str:
        """Return what is new in the text of the next message."""
        if text and len(text) >= self._size:
            text = text.removeprefix("".join(self._parts))
        self._parts.append(text)
        self._size += len(text)
        return text


def _is_foreign(call: ToolCallFragment) -> bool:
    """Whether a tool call without a function calls something else (OpenAI's `custom`)."""
    return call.custom is not None or call.type not in (None, "", "function")


def _unsupported_call_fault(call: ToolCallFragment) -> Fault:
    name = call.custom.get("name") if isinstance(call.custom, dict) else None
    named = f" of {name!r}" if isinstance(name, str) else ""
    type_ = call.type or "custom"
    return faults.make_fault(
        "unsupported",
        f"the model server's reply has a tool call{named} of type {type_!r}: only function calls are supported",
    )


def _describe_keys(value: dict[str, Any]) -> str:
    """Name the first keys of an object."""
    shown = [repr(key[:40]) for key in list(value)[:3]]
    more = f" and {len(value) - 3} more" if len(value) > 3 else ""
    return f"the keys {', '.join(shown)}{more}" if shown else "no key"


def _has_failed(native: Any) -> bool:
    """Whether the provider's own word alone says that the reply failed (OpenRouterTeam/ai-sdk-provider#166)."""
    return isinstance(native, str) and is_reason(native) and find_ending(native).fault is not None


def _is_base_resp_error(base_resp: dict[str, Any]) -> bool:
    """Whether `base_resp`, in which MiniMax reports errors, reports one; its code 0 means success."""
    return base_resp.get("status_code") not in (0, None)
