"""`LogprobsStage`: passes the log probabilities of tokens on with the text that they are of.

It runs the other stages of a reply, and compares the text that they give with the server's. Where a stage has changed,
moved or taken out text (reasoning in tags, calls in the text, stop words), no log probabilities follow.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from app.chat.events import Event, Finish, TextDelta, TokenLogprobs
from app.chat.stage import Pipe, Stage
from app.chat.token_record import TokenRecord

_CHANGED = (
    "logprobs: log probabilities were left out where the gateway changed the text of the model server, such as by"
    " taking reasoning, calls or stop words out of it"
)
_MISSING = "logprobs: the model server sent none for a part of the text, or for all of it"


class LogprobsStage:
    def __init__(self, record: TokenRecord, stages: Sequence[Stage]) -> None:
        self._record = record
        self._feed_stages = Pipe(stages).feed

    def feed(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in self._feed_stages(events):
            if type(event) is TextDelta and not event.refusal:
                tokens = self._record.take(event.text)
                if tokens:
                    out.append(TokenLogprobs(tokens))
            elif type(event) is Finish and (warnings := self._list_warnings()):
                event = replace(event, warnings=(*event.warnings, *warnings))
            out.append(event)
        return out

    def _list_warnings(self) -> list[str]:
        record = self._record
        warnings = [_CHANGED] if record.has_changed or record.has_rest else []
        return [*warnings, _MISSING] if record.has_gaps else warnings
