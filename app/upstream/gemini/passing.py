"""`PassingAssembler`: the events of a reply of the Gemini API with the server's own chunks before them, for clients of
that API."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from app.chat.events import Event, Failed, Fault, Finish, Passed, PassedEnd
from app.upstream.gemini.assembler import GeminiAssembler
from app.upstream.gemini.decoder import KeptChunk

CHUNK = "chunk"
"""The name of each `Passed`: a whole reply is one chunk, too."""


class PassingAssembler(GeminiAssembler):
    """Returns the server's own chunks, too, in their order and before what they bring. They are held until the reply
    has begun, because before that another server may be tried. They end with the first one from which something had to
    be inferred.

    Where Google's server says why there is no reply, its chunk is the reply: the client knows its words.
    """

    def __init__(self, reply_id: str) -> None:
        super().__init__(reply_id)
        self._passed: list[Event] = []
        self._has_begun = False
        self._passes = True

    @override
    def _feed_chunk(self, chunk: dict[str, Any], out: list[Event]) -> None:
        if not self._passes:
            super()._feed_chunk(chunk, out)
            return
        brought: list[Event] = []
        received, items = self._received, self._items
        waiting = len(items)
        super()._feed_chunk(chunk, brought)
        failed = bool(brought) and type(brought[-1]) is Failed
        if self._has_inferred and not failed:
            self._end_passing(brought, out)
            return
        if self._received > received and not failed and isinstance(chunk, KeptChunk):
            details = len(self._items) - (waiting if self._items is items else 0)
            self._passed.append(Passed(CHUNK, chunk.text, details))
        self._has_begun = self._has_begun or (bool(brought) and not failed)
        if self._has_begun:
            out += self._passed
            self._passed = []
        out += brought

    def _end_passing(self, brought: Sequence[Event], out: list[Event]) -> None:
        self._passes = False
        out += [*self._passed, PassedEnd(), *brought]
        self._passed = []

    @override
    def _refuse_prompt(self, reason: str, out: list[Event]) -> None:
        if self._passes:
            self._finish_as_said(Finish("content_filter", self.read_usage(), reason[:200]), out)
        else:
            super()._refuse_prompt(reason, out)

    @override
    def _end_faulty(self, word: str, code: str, out: list[Event]) -> None:
        if self._passes:
            self._finish_as_said(Finish("stop", self.read_usage(), word, tuple(self._warnings), cacheable=False), out)
        else:
            super()._end_faulty(word, code, out)

    def _finish_as_said(self, finish: Finish, out: list[Event]) -> None:
        self._calls.flush(out)
        out.append(finish)
        self.ended = True

    @override
    def close(self, junk: bytes = b"", fault: Fault | None = None) -> list[Event]:
        brought = super().close(junk, fault)
        out: list[Event] = []
        if self._has_inferred and self._passes and brought and type(brought[-1]) is Finish:
            self._end_passing(brought, out)
            return out
        held, self._passed = self._passed, []
        return held + brought if brought and type(brought[-1]) is Finish else brought
