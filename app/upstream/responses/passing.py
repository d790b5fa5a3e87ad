"""`PassingAssembler`: the events of a reply of the Responses API with the server's own events before them, for clients
of that API."""

from typing import Any

from typing_extensions import override

from app.chat.events import NEXT_MESSAGE, Event, Failed, Passed, PassedEnd
from app.upstream.reply.sse import EVENT_NAME, ErrorEvent
from app.upstream.reply.usual_decoder import RepeatedEvent
from app.upstream.responses.assembler import ReplyItem, ResponsesAssembler
from app.upstream.responses.decoder import decode_kept
from app.upstream.responses.event import KeptEvent, ResponseEvent
from app.upstream.responses.item_ids import set_item_id, set_output_ids
from app.upstream.responses.items import find_slot, get_text


class PassingAssembler(ResponsesAssembler):
    """Returns the server's own events, too, in their order and before what they bring. They are held until the reply
    has begun, because before that another server may be tried. They end with the first one from which something had to
    be inferred. A whole reply is one event of the name `response`."""

    def __init__(self, reply_id: str) -> None:
        super().__init__(reply_id)
        self._passed: list[Event] = []
        self._has_begun = False
        self._passes = True
        self._known_name = ""
        """The name of the last event, which is one that is passed on."""
        self._changes_ids = False
        """The server has given an item another id than the one by which it began."""

    @override
    def _feed_repeated(self, item: RepeatedEvent, out: list[Event]) -> None:
        if item.earlier is self._earlier and not self._changes_ids:
            place = len(out)
            if self._passes:
                out.append(Passed(self._known_name, item.get_json().decode()))
            if self._extend_run(item.text, out):
                if self._passes and self._calls.has_more:
                    self._passes, out[place] = False, PassedEnd()
                return
            del out[place:]
        self._feed_kept(decode_kept(item.get_json()), out)
        self._earlier = None if self._run is None or not self._has_begun else item.earlier

    @override
    def _feed_item(self, item: ReplyItem, out: list[Event]) -> None:
        kept = _keep_error(item) if type(item) is ErrorEvent else item
        if type(kept) is KeptEvent:
            self._feed_kept(kept, out)
        else:
            super()._feed_item(kept, out)

    @override
    def _add_detail(self, detail: dict[str, Any], out: list[Event]) -> None:
        super()._add_detail(detail, out)
        self._place_details(NEXT_MESSAGE, out)  # with the event that brings it, which says it to the client

    def _feed_kept(self, kept: KeptEvent, out: list[Event]) -> None:
        event, place = kept.event, len(out)
        super()._feed_item(event, out)
        has_brought = len(out) > place
        failed = has_brought and type(out[-1]) is Failed
        if not self._passes or failed:
            return
        if self._has_inferred or kept.is_named or (event is not None and event.item_id and event.output_index is None):
            self._passes = False
            out[place:place] = [*self._passed, PassedEnd()]
            self._passed = []
            return
        name = (event.type or "response") if event is not None else ""
        if name == self._known_name or EVENT_NAME.fullmatch(name):
            self._known_name = name
            self._passed.append(Passed(name, kept.text if event is None else self._keep_ids(event, kept.text)))
        if self._passed and (self._has_begun or has_brought):
            self._has_begun = True
            out[place:place] = self._passed
            self._passed = []

    def _keep_ids(self, event: ResponseEvent, text: str) -> str:
        """Return an event with the ids by which its items began."""
        output = event.response.get("output") if event.response is not None else None
        if isinstance(output, list) and output:
            ids = [self._find_other_id(item, index) for index, item in enumerate(output)]
            return set_output_ids(text, ids) if any(ids) else text
        slot = None if event.output_index is None else self._by_index.get(event.output_index)
        given = event.item_id if event.item is None else get_text(event.item, "id")
        if slot is None or not slot.first_id or given == slot.first_id:
            return text
        self._changes_ids = True
        return set_item_id(text, slot.first_id)

    def _find_other_id(self, item: Any, index: int) -> str:
        """Return the id by which an item of the output began, if it has another one there; else an empty text."""
        slot = find_slot(item, index, self._slots) if isinstance(item, dict) else None
        return "" if slot is None or get_text(item, "id") in ("", slot.first_id) else slot.first_id


def _keep_error(item: ErrorEvent) -> ErrorEvent | KeptEvent:
    """Return the event of a tool's failure, which has the framing of an error."""
    try:
        kept = decode_kept(item.data)
    except ValueError:
        return item
    return kept if kept.event is not None and kept.event.type.startswith("response.") else item
