"""`PassingAssembler`: the events of a reply of the Messages API with the server's own events before them, for clients
of that API."""

from typing import Any

from typing_extensions import override

from app.chat.events import Event, Failed, Fault, Finish, Passed, PassedEnd
from app.upstream import faults
from app.upstream.messages.assembler import ANY_TEXT, MessageAssembler
from app.upstream.messages.blocks import ReplyBlock, has_detail
from app.upstream.messages.decoder import decode_kept
from app.upstream.messages.objects import KeptObject
from app.upstream.reply.sse import EVENT_NAME
from app.upstream.reply.usual_decoder import RepeatedEvent


class PassingAssembler(MessageAssembler):
    """Returns the server's own events, too, in their order and before what they bring. They are held until the reply
    has begun, because before that another server may be tried. They end with the first one from which something had to
    be inferred."""

    def __init__(self, reply_id: str) -> None:
        super().__init__(reply_id)
        self._passed: list[Event] = []
        self._has_begun = False
        self._passes = True
        self._detail_count = 0

    @override
    def _feed_repeated(self, item: RepeatedEvent, out: list[Event]) -> None:
        data = item.get_json()
        if item.earlier is self._earlier:
            place = len(out)
            if self._passes:
                out.append(Passed("content_block_delta", data.decode()))
            self._extend_run(item.text, out)
            if self._passes and self._calls.has_more:
                self._passes, out[place] = False, PassedEnd()
            return
        value = decode_kept(data)
        self._feed_object(value, out)
        if self._has_begun and self._begin_run(value):
            self._earlier = item.earlier

    @override
    def _feed_object(self, value: dict[str, Any], out: list[Event]) -> None:
        if not self._passes:
            self._take_object(value, out)
            return
        brought: list[Event] = []
        self._take_object(value, brought)
        failed = bool(brought) and type(brought[-1]) is Failed
        details, self._detail_count = self._detail_count, 0
        if self._has_inferred and not failed:
            self._passes = False
            out += [*self._passed, PassedEnd(), *brought]
            return
        name = value.get("type")
        if isinstance(name, str) and EVENT_NAME.fullmatch(name) and not failed and isinstance(value, KeptObject):
            self._passed.append(Passed(name, value.text, details))
        self._has_begun = self._has_begun or (bool(brought) and not failed)
        if self._has_begun:
            out += self._passed
            self._passed = []
        out += brought

    @override
    def _find_ended_call(self, index: int, out: list[Event]) -> ReplyBlock | None:
        call = super()._find_ended_call(index, out)
        if call is not None and self._passes:  # the client has read that the call is complete
            text = "the model server sent a part of a call's input behind the end of the call"
            self._fail(faults.make_fault("upstream_protocol", text), out)
        return call

    @override
    def _stop_block(self, block: ReplyBlock | None, out: list[Event]) -> None:
        if block is not None and has_detail(block):
            self._detail_count += 1
        super()._stop_block(block, out)
        if block is not None and block.type == "tool_use":  # the client knows it, so the stages must
            self._calls.seal_last_call(ANY_TEXT, out)

    @override
    def close(self, junk: bytes = b"", fault: Fault | None = None) -> list[Event]:
        events = super().close(junk, fault)
        held, self._passed = self._passed, []
        return held + events if events and type(events[-1]) is Finish else events
