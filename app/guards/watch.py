"""`WatchedReply`: a reply of which nothing is passed on that its guards have not let pass.

The events of a turn are held in segments. A guard that blocks gets the turn as one segment; one that uses windows gets
texts in pieces that end at a sentence. Calls are held to the end of the turn in both cases, because a call that was
passed on can be run. A segment is released after its verdict, in order, while the next one fills.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from app.chat.events import (
    END_TYPES,
    Event,
    Extra,
    Failed,
    Fault,
    Finish,
    MediaOutput,
    Passed,
    PassedEnd,
    ReasoningDelta,
    TextDelta,
    TokenLogprobs,
    ToolCallDelta,
    is_end,
)
from app.chat.policy import PolicyRefusal
from app.chat.stream import Receiver, Reply
from app.errors import GuardUnavailable
from app.guards.rules import GuardRule, WindowRules, make_window_rules
from app.guards.verdicts import JudgedReply, PartKind, TextPart

_SENTENCE_END = re.compile(r"[.!?…]\s|[。！？]|\n")
_SPACE = re.compile(r"\s")
_SPACE_AFTER, _LONGEST = 2, 4
"""A window without the end of a sentence ends at white space, and without any, behind so many times its size."""
_OPAQUE_NAMES = frozenset(
    {
        "data",
        "encrypted_content",
        "encrypted_index",
        "format",
        "id",
        "signature",
        "thought_signature",
        "type",
        "b64_json",
    }
)
_BASE64 = re.compile(r"data:[^,]{0,100};base64,")
_OUTPUT, _JOINED = "output[", "joined["
"""What the ids of parts begin with: those of a run, and of several runs together."""
_NOT_SEEN = (*END_TYPES, Passed, PassedEnd)
"""Events without a text of their own."""
REPLACED = (
    "a guard has replaced a part of this reply: its log probabilities, annotations and other warnings are left out"
)
NO_ALTERNATIVES = "guards look at this reply: tokens that the model did not choose are left out of `top_logprobs`"
WITHHELD_REASONING = "the reasoning of this reply is withheld by policy"


class Judge(Protocol):
    def __call__(
        self, parts: Sequence[TextPart], *, final: bool, released: Mapping[str, str]
    ) -> Coroutine[Any, Any, JudgedReply]:
        """`released` is what was released before of parts, by their ids: their new texts must begin with it."""


class Segment(NamedTuple):
    events: list[Event]
    end: Finish | None = None


class Segmenter:
    """Cuts the events of a turn into segments."""

    def __init__(self, rules: WindowRules) -> None:
        self._rules = rules
        self._events: list[Event] = []
        self._kind: type[Any] | None = None
        """Of the text of the open segment."""
        self._text = ""
        self._has_calls = False
        self.withheld = False
        """Some reasoning was left out."""
        self.has_cut_alternatives = False
        """Some words that the model did not write were left out."""

    def feed(self, event: Event) -> Iterator[Segment]:
        kind = type(event)
        if self._rules.withholds_reasoning and self._is_reasoning(event):
            self.withheld = True
            return
        if isinstance(event, Passed | PassedEnd):
            return
        if isinstance(event, TokenLogprobs):
            event = self._cut_alternatives(event)
        if isinstance(event, Finish):
            yield Segment(self._take(), event)
        elif self._has_calls or not self._rules.characters:
            self._events.append(event)
        elif isinstance(event, ToolCallDelta):
            if self._text:
                yield Segment(self._take())
            self._has_calls = True
            self._events.append(event)
        elif isinstance(event, TextDelta | ReasoningDelta):
            if self._text and kind is not self._kind:
                yield Segment(self._take())
            yield from self._add_text(event)
        else:
            self._events.append(event)

    @staticmethod
    def _is_reasoning(event: Event) -> bool:
        return type(event) is ReasoningDelta or (
            type(event) is Extra and any(name in event.fields for name in ("reasoning_details", "thinking_blocks"))
        )

    def _cut_alternatives(self, event: TokenLogprobs) -> TokenLogprobs:
        tokens = [
            {**one, "top_logprobs": _keep_chosen(one)} if one.get("top_logprobs") else one for one in event.tokens
        ]
        if tokens == event.tokens:
            return event
        self.has_cut_alternatives = True
        return TokenLogprobs(tokens)

    def _add_text(self, event: TextDelta | ReasoningDelta) -> Iterator[Segment]:
        self._kind = type(event)
        text, place = event.text, 0
        while (cut := find_window_end(self._text, text, self._rules.characters, place)) > 0:
            self._events.append(replace(event, text=text[place : place + cut]))
            place += cut
            yield Segment(self._take())
            self._kind = type(event)
        if place < len(text):
            self._events.append(replace(event, text=text[place:]))
            self._text += text[place:]

    def _take(self) -> list[Event]:
        events, self._events, self._text, self._kind = self._events, [], "", None
        return events


def _keep_chosen(token: Mapping[str, Any]) -> list[Any]:
    alternatives = token["top_logprobs"]
    given = alternatives if isinstance(alternatives, list) else []
    return [one for one in given if isinstance(one, dict) and one.get("token") == token.get("token")]


def find_window_end(before: str, text: str, size: int, start: int = 0) -> int:
    """Return how much of a new text, from `start` on, belongs to a window that has a text before it; 0 if the window
    goes on. It depends only on both together: a window ends at the first end of a sentence or line behind `size`, at
    the first white space behind twice that, or at its longest, whichever comes first."""
    offset, longest = len(before), _LONGEST * size
    whole = before + text[start : start + max(longest - offset, 1)]
    ends = [longest] if len(whole) >= longest else []
    for expression, least in ((_SENTENCE_END, size), (_SPACE, _SPACE_AFTER * size)):
        for found in expression.finditer(whole, max(0, max(least, offset) - 2)):
            if found.end() >= least and found.end() > offset:
                ends.append(found.end())
                break
    return min(ends) - offset if ends else 0


class WatchedReply:
    """Implements `Reply`, and is the receiver of the model's reply."""

    def __init__(
        self,
        reply: Reply,
        judge: Judge,
        observe: Callable[[Sequence[TextPart]], Coroutine[Any, Any, None]],
        run_aside: Callable[[Coroutine[Any, Any, None]], None],
        replying: Sequence[GuardRule],
        watching: Sequence[GuardRule],
        remember: Callable[[Sequence[TextPart], Collection[str]], None],
        clean_fault: Callable[[Fault], Fault],
        earlier: Mapping[PartKind, str] = MappingProxyType({}),
    ) -> None:
        """`earlier` are the ends of the texts of the reply's turns before this one: some formats join them."""
        self._reply = reply
        self._earlier = dict(earlier)
        self._judge = judge
        self._observe = observe
        self._run_aside = run_aside
        self._remember = remember
        self._clean_fault = clean_fault
        self._watches = bool(watching)
        self._rules = make_window_rules(replying)
        self._segmenter = Segmenter(self._rules) if replying else None
        self._seen: list[Event] = []
        """Events of a reply that is only observed, or that has passed."""
        self._queue: deque[Segment] = deque()
        self._held: list[Event] = []
        """What a guard keeps back for the next segment."""
        self._released: dict[PartKind, str] = {}
        """The ends of the texts that were passed on, by their kinds, the last one last."""
        self._receiver: Receiver | None = None
        self._task: asyncio.Task[None] | None = None
        self._begun = False
        self._replaced = False
        self._failed: dict[str, None] = {}
        """The guards that have said nothing of a part of the reply."""
        self._ended = False

    # Reply.

    @property
    def fallback_model(self) -> str | None:
        return self._reply.fallback_model

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._reply.start(self)

    def pause(self) -> None:
        self._reply.pause()

    def resume(self) -> None:
        self._reply.resume()

    def tick(self, now: float) -> None:
        self._reply.tick(now)

    def close(self) -> None:
        self._ended = True
        self._receiver = None
        self._reply.close()
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    # Receiver of the model's reply.

    def on_events(self, events: list[Event]) -> None:
        if self._ended or self._receiver is None:
            return
        if self._segmenter is None:
            self._pass_observed(events)
            return
        if not events or not self._begun:
            self._begun = True
            if not is_end(events):
                self._receiver.on_events([])  # the model's server answers: a stream to the client may open
        for event in events:
            if type(event) is Failed:
                self._push_end([Failed(self._clean_fault(event.fault))])
                return
            self._queue.extend(self._segmenter.feed(event))
        if self._queue and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        for events in batches:
            self.on_events(events)

    def on_crash(self, error: Exception) -> None:
        if self._receiver is not None and not self._ended:
            self._ended = True
            self._receiver.on_crash(error)

    def _pass_observed(self, events: list[Event]) -> None:
        assert self._receiver is not None
        if self._watches:
            self._seen += [event for event in events if type(event) not in _NOT_SEEN]
            if events and type(events[-1]) is Finish:
                self._start_observer(list_reply_parts(self._seen))
        self._receiver.on_events(events)

    def _start_observer(self, parts: Sequence[TextPart]) -> None:
        self._run_aside(self._observe(parts))

    # Verdicts.

    async def _work(self) -> None:
        try:
            while self._queue and not self._ended:
                await self._release(self._queue.popleft())
        except GuardUnavailable as error:
            fault = Fault("overloaded", error.message, True, cause="guard", retry_after_seconds=1.0)
            self._push_end([Failed(fault)])
        except Exception as error:
            self.on_crash(error)
        finally:
            self._task = None

    async def _release(self, segment: Segment) -> None:
        """Pass a segment on as its guards let it pass."""
        events, self._held = [*self._held, *segment.events], []
        interrupted = self._find_interrupted(events)
        parts = list_reply_parts(events, interrupted)
        released = self._find_released(parts, interrupted)
        if released:
            parts = [replace(part, text=released.get(part.id, "") + part.text) for part in parts]
        final = segment.end is not None
        judged = await self._judge(parts, final=final, released=released) if parts else JudgedReply()
        if self._ended:
            return
        if judged.refused is not None:
            self._refuse(judged.refused, segment.end)
            return
        self._failed.update(dict.fromkeys(judged.failed))
        texts = {id_: text[len(released.get(id_, "")) :] for id_, text in judged.texts.items()}
        out = replace_reply_texts(events, texts, interrupted) if texts else events
        self._replaced = self._replaced or bool(texts)
        if self._replaced:
            out = [event for event in out if not _is_lost(event)]
        if segment.end is None:
            out = self._keep_back(out, judged.holdback)
            self._seen += out
            if out and self._receiver is not None:
                self._receiver.on_events(out)
            return
        is_whole = out is events and not (self._seen or interrupted or released)
        self._seen += out
        seen = parts if is_whole else list_reply_parts(self._seen)
        self._remember(seen, self._failed)
        if self._watches:
            self._start_observer(seen)
        self._push_end([*out, self._make_end(segment.end)])

    def _find_interrupted(self, events: Sequence[Event]) -> frozenset[PartKind]:
        """Return the kinds of texts that were released before and go on in these events, behind something else, or of
        which a turn ended within what would be one word."""
        last = next(reversed(self._released), None)
        found: set[PartKind] = set()
        for event in events if last is not None else ():
            kind = _find_kind(event)
            if kind is not None and kind != last:
                found.add(kind)
                last = kind
        words = [kind for kind, text in self._earlier.items() if text[-1:].isalnum() and _begins_word(events, kind)]
        return frozenset([*words, *(kind for kind in found if kind in self._released)])

    def _find_released(self, parts: Sequence[TextPart], interrupted: Collection[PartKind]) -> dict[str, str]:
        """Return what was released before of the texts that go on in these parts, by the ids of these."""
        found: dict[str, str] = {}
        for kind in ("text", "reasoning"):
            before = self._released.get(kind, "")
            if any(part.kind == kind for part in parts):
                before = self._earlier.pop(kind, "") or before
            ids = [part.id for part in parts if part.kind == kind] if before else []
            first = [] if kind in interrupted else [id_ for id_ in ids if id_.startswith(_OUTPUT)][:1]
            joined = [id_ for id_ in ids if id_.startswith(_JOINED)][:1]
            found |= dict.fromkeys([*first, *joined], before)
        return found

    def _keep_back(self, events: list[Event], count: int) -> list[Event]:
        """Keep so many characters at the end of a text for the next window, and note what is released."""
        out = list(events)
        while count > 0 and out and isinstance(out[-1], TextDelta | ReasoningDelta):
            last = out.pop()
            assert isinstance(last, TextDelta | ReasoningDelta)
            kept = last.text[-count:]
            count -= len(kept)
            self._held.insert(0, replace(last, text=kept))
            if len(kept) < len(last.text):
                out.append(replace(last, text=last.text[: len(last.text) - len(kept)]))
        for event in out if self._rules.overlap else ():
            if isinstance(event, TextDelta | ReasoningDelta):
                kind: PartKind = "text" if isinstance(event, TextDelta) else "reasoning"
                text = self._released.pop(kind, "") + event.text
                self._released[kind] = text[-self._rules.overlap :]
        return out

    def _refuse(self, why: tuple[str, str, str | None], end: Finish | None) -> None:
        policy = PolicyRefusal(*why)
        kept = end or Finish("content_filter")
        finish = replace(
            kept,
            reason="content_filter",
            native_reason=None,
            stopped_by=None,
            cacheable=False,
            policy=policy,
            output=None,
            warnings=(),  # they may quote it
        )
        self._push_end([finish])

    def _make_end(self, end: Finish) -> Finish:
        warnings = [REPLACED] if self._replaced else list(end.warnings)  # which may quote what was replaced
        if self._segmenter is not None and self._segmenter.withheld:
            warnings.append(WITHHELD_REASONING)
        if self._segmenter is not None and self._segmenter.has_cut_alternatives and not self._replaced:
            warnings.append(NO_ALTERNATIVES)
        warnings += [f"the guard {name} gave no verdict, and this reply was sent without it" for name in self._failed]
        if warnings == list(end.warnings):
            return end
        return replace(end, warnings=tuple(warnings), cacheable=end.cacheable and not self._failed)

    def _push_end(self, events: list[Event]) -> None:
        receiver = self._receiver
        self._ended = True
        self._queue.clear()
        if receiver is not None:
            receiver.on_events(events)
        task = self._task
        if task is not None and task is not asyncio.current_task():
            task.cancel()


class RefusalStage:
    """Says to a reader that a guard has refused the reply."""

    def __init__(self, *, fails: bool) -> None:
        """`fails`: with a failure, because clients of the format do not understand words of refusal."""
        self._fails = fails

    def feed(self, events: list[Event]) -> list[Event]:
        end = events[-1] if events else None
        if type(end) is not Finish or end.policy is None:
            return events
        sentence = end.policy.sentence
        if self._fails:
            return [*events[:-1], Failed(Fault("content_filter", sentence, False, usage=end.usage, policy=end.policy))]
        return [*events[:-1], TextDelta(sentence, refusal=True), end]


def _is_lost(event: Event) -> bool:
    """Whether an event belongs to a text that was replaced."""
    lost = ("annotations", "reasoning_details", "thinking_blocks", "raw_arguments")
    return type(event) is TokenLogprobs or (type(event) is Extra and any(name in event.fields for name in lost))


class _Run:
    """The events of one text, which are consecutive unless it is that of a call."""

    __slots__ = ("_part", "places", "texts")

    def __init__(self, part: TextPart) -> None:
        self._part = part
        self.texts: list[str] = []
        self.places: list[int] = []

    def add(self, place: int, text: str, name: str = "", call_id: str = "") -> None:
        self.places.append(place)
        self.texts.append(text)
        if name or call_id:
            part = self._part
            self._part = replace(part, name=part.name or name, call_id=part.call_id or call_id)

    @property
    def kind(self) -> PartKind:
        return self._part.kind

    @property
    def part(self) -> TextPart:
        return replace(self._part, text="".join(self.texts))


def _find_kind(event: Event) -> PartKind | None:
    if isinstance(event, TextDelta):
        return "text"
    if isinstance(event, ReasoningDelta):
        return "reasoning"
    return "arguments" if isinstance(event, ToolCallDelta) else None


def _begins_word(events: Sequence[Event], kind: PartKind) -> bool:
    texts = (
        event.text for event in events if isinstance(event, TextDelta | ReasoningDelta) and _find_kind(event) == kind
    )
    return next(filter(None, texts), "")[:1].isalnum()


def _list_runs(events: Sequence[Event], interrupted: Collection[PartKind] = ()) -> list[_Run]:
    """Return the texts of a segment, each with the places of its events. Behind them, those of which something else
    stands in the middle, or of a kind that was `interrupted` before: formats join them, and clients do."""
    runs: list[_Run] = []
    of_marks: dict[tuple[Any, ...], list[_Run]] = {}
    calls: dict[int, _Run] = {}
    last: tuple[Any, ...] = ()
    for place, event in enumerate(events):
        if isinstance(event, TextDelta | ReasoningDelta):
            mark = (type(event), isinstance(event, TextDelta) and event.refusal)
            if last != mark:
                kind: PartKind = "text" if isinstance(event, TextDelta) else "reasoning"
                runs.append(_Run(TextPart(f"{_OUTPUT}{len(runs)}]", "assistant", kind, "")))
                of_marks.setdefault(mark, []).append(runs[-1])
                last = mark
            runs[-1].add(place, event.text)
        elif isinstance(event, ToolCallDelta):
            last = ()
            run = calls.get(event.index)
            if run is None:
                run = calls[event.index] = _Run(TextPart(f"{_OUTPUT}{len(runs)}]", "assistant", "arguments", ""))
                runs.append(run)
            run.add(place, event.arguments, event.name, event.id)
        elif not isinstance(event, TokenLogprobs | Extra):
            last = ()
    joined = [same for same in of_marks.values() if len(same) > 1 or same[0].kind in interrupted]
    return [*runs, *(_join_runs(f"{_JOINED}{number}]", same) for number, same in enumerate(joined))]


def _join_runs(id_: str, runs: Sequence[_Run]) -> _Run:
    joined = _Run(TextPart(id_, "assistant", runs[0].kind, ""))
    for run in runs:
        joined.places += run.places
        joined.texts += run.texts
    return joined


def list_reply_parts(events: Sequence[Event], interrupted: Collection[PartKind] = ()) -> list[TextPart]:
    """Return the texts of events, each run of one kind as one part, several of them joined, too, and those that only
    extra fields have."""
    found = [run.part for run in _list_runs(events, interrupted)]
    parts = [part for part in found if part.text or part.kind == "arguments"]
    said = "\n".join(part.text for part in parts)
    for place, event in enumerate(events):
        fields = event.fields if isinstance(event, Extra | MediaOutput) else None
        others = [text for text in _list_leaves(fields) if text not in said] if fields else []
        if others:
            parts.append(TextPart(f"extra[{place}]", "assistant", "text", "\n".join(others)))
    return parts


def _list_leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if value and not _BASE64.match(value):
            yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _list_leaves(item)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if name not in _OPAQUE_NAMES:
                yield from _list_leaves(item)


def replace_reply_texts(
    events: Sequence[Event], texts: Mapping[str, str], interrupted: Collection[PartKind] = ()
) -> list[Event]:
    """Return the events with new texts. Of extra fields that would have one, nothing stays."""
    out: list[Event | None] = list(events)
    for run in _list_runs(events, interrupted):  # the joined texts are behind those that they consist of, and count
        id_ = run.part.id
        if id_ in texts:
            first, *others = run.places
            event = events[first]
            if isinstance(event, ToolCallDelta):
                out[first] = replace(event, arguments=texts[id_])
            elif isinstance(event, TextDelta | ReasoningDelta):
                out[first] = replace(event, text=texts[id_])
            for place in others:
                other = events[place]
                out[place] = replace(other, arguments="") if isinstance(other, ToolCallDelta) and other.name else None
    for id_ in texts:
        if id_.startswith("extra["):
            out[int(id_[6:-1])] = None
    return [event for event in out if event is not None]
