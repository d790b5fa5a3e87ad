"""How the tests of the steps run a reply: stages in a row, and the messages that come out."""

import random
from collections.abc import Iterable, Sequence
from typing import Any

from app.chat.accumulator import MessageAccumulator, MessageCompleted, MessageDelta, ReplyMessage
from app.chat.events import Event, Failed, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.stage import Pipe, Stage

Json = dict[str, Any]
STOP = Finish("stop")
PIECE = "x" * 40


def texts(text: str, seed: int | None = None) -> list[list[Event]]:
    """The text as deltas: one, one for each character (seed 0), or cut by chance."""
    if seed is None:
        return [[TextDelta(text)]] if text else []
    if seed == 0:
        return [[TextDelta(char)] for char in text]
    draw = random.Random(seed)
    places = sorted(draw.sample(range(1, len(text)), min(draw.randint(1, 12), len(text) - 1))) if len(text) > 1 else []
    edges = [0, *places, len(text)]
    return [[TextDelta(text[start:end])] for start, end in zip(edges, edges[1:], strict=False) if start < end]


def flooded(stage: Stage, first: str, piece: str, times: int) -> list[Event]:
    """Return what comes out of a text that arrives in many equal pieces."""
    out = stage.feed([TextDelta(first)])
    for _ in range(times):
        out += stage.feed([TextDelta(piece)])
    return out + stage.feed([STOP])


class Reply:
    """What a caller sees of a reply."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._pipe = Pipe(stages)
        self._segmenter = MessageAccumulator()
        self._completed: list[ReplyMessage] = []
        self.grown: dict[int, str] = {}
        self.end: Finish | Failed | None = None

    def feed(self, events: list[Event]) -> None:
        for step in self._segmenter.feed(self._pipe.feed(events)):
            if isinstance(step, MessageDelta):
                assert step.message not in self._completed, "a completed message grew"
                self.grown[step.message.index] = self.grown.get(step.message.index, "") + step.text
            elif isinstance(step, MessageCompleted):
                self._completed.append(step.message)
            elif isinstance(step, Finish | Failed):
                assert self.end is None, "a reply ended twice"
                self.end = step

    def messages(self) -> list[Json]:
        assert {segment.index: segment.text for segment in self._segmenter.messages if segment.text} == self.grown
        return [_message(segment) for segment in self._segmenter.messages]

    @property
    def warnings(self) -> list[str]:
        held = [segment.extra for segment in self._segmenter.messages] + [self._segmenter.loose_extra]
        return [extra["warning"] for extra in held if "warning" in extra]

    @property
    def reason(self) -> str | None:
        return self.end.reason if isinstance(self.end, Finish) else None

    def short(self) -> list[tuple[str, ...]]:
        """The messages in brief: (R, text), (C, text) or (F, name, arguments)."""
        return [_short(message) for message in self.messages()]


def _message(segment: ReplyMessage) -> Json:
    if segment.kind == "function_call":
        call = {"name": segment.name, "arguments": segment.text}
        return {"role": "assistant", "function_call": call, "extra": {**segment.extra, "function_id": segment.id}}
    return {"role": "assistant", segment.kind: segment.text, **({"extra": segment.extra} if segment.extra else {})}


def _short(message: Json) -> tuple[str, ...]:
    if "function_call" in message:
        return ("F", message["function_call"]["name"], message["function_call"]["arguments"])
    return ("R", message["reasoning_content"]) if "reasoning_content" in message else ("C", message["content"])


def run(stages: Sequence[Stage], parts: Iterable[list[Event]], end: Event | None = STOP) -> Reply:
    reply = Reply(stages)
    for part in parts:
        reply.feed(part)
    if end is not None:
        reply.feed([end])
    return reply


def joined(events: Iterable[Event]) -> list[Event]:
    """The same events with neighbours of one kind joined, whatever the cuts were."""
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        if type(event) is TextDelta and type(last) is TextDelta and last.refusal == event.refusal:
            out[-1] = TextDelta(last.text + event.text, event.refusal)
        elif type(event) is ReasoningDelta and type(last) is ReasoningDelta:
            out[-1] = ReasoningDelta(last.text + event.text)
        elif type(event) is ToolCallDelta and type(last) is ToolCallDelta and last.index == event.index:
            out[-1] = ToolCallDelta(last.index, last.arguments + event.arguments, last.id, last.name)
        else:
            out.append(event)
    return out
