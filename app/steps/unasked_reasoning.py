"""Takes reasoning as the answer where the request has switched thinking off and the reply has nothing else.

The parsers of vLLM and llama.cpp take a reply for reasoning until a closing tag comes, and without thinking none does
(vllm-project/vllm#40466, ggml-org/llama.cpp#27134). A server that thinks all the same sends an answer behind its
reasoning, so this is held until that begins.
"""

from msgspec.structs import replace

from app.chat.events import Event, Extra, Finish, ReasoningDelta, TextDelta

_WARNING = "thinking is switched off, and the model server sent the answer as reasoning"


class UnaskedReasoningStage:
    """Runs before tags of reasoning and calls are read from the text: the answer may have them."""

    def __init__(self) -> None:
        self._held: list[Event] = []
        """Reasoning, and what beside it is no answer."""
        self._is_over = False

    def feed(self, events: list[Event]) -> list[Event]:
        if self._is_over:
            return events
        place = next((at for at, event in enumerate(events) if not _may_stand_before(event)), None)
        if place is None:
            self._held += events
            return []
        self._is_over = True
        held, self._held = [*self._held, *events[:place]], []
        return [*held, *events[place:]] if type(events[place]) is not Finish else _end(held, events[place:])


def _may_stand_before(event: Event) -> bool:
    """Whether an answer may follow an event, which is none."""
    return type(event) in _BESIDE or (type(event) is TextDelta and not event.refusal and not event.text.strip())


_BESIDE = frozenset((ReasoningDelta, Extra))


def _end(held: list[Event], ending: list[Event]) -> list[Event]:
    """Return the events of a reply that has only what is held."""
    finish = ending[0]
    thought = "".join([event.text for event in held if type(event) is ReasoningDelta])
    if type(finish) is not Finish or finish.reason != "stop" or not thought.strip():
        return [*held, *ending]
    answer = [TextDelta(event.text) if type(event) is ReasoningDelta else event for event in held]
    return [*answer, replace(finish, warnings=(*finish.warnings, _WARNING))]
