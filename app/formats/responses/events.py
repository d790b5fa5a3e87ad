"""Writes the events of a reply, each with the next `sequence_number`.

A heartbeat is the event `keepalive`, which OpenAI's TypeScript SDK knows. Codex drops a connection on which no event
came for 300 seconds, and does not count comments (codex-rs/codex-api/src/sse). A `keepalive` takes a sequence number,
as OpenAI's does. So that a client can resume after any number, each stream of the same reply has it at the same place:
`ReplyInfo.keepalives` has the numbers, and a writer writes those that it meets.
"""

import re
from typing import Any

from typing_extensions import override

from app.formats.sse import encode_json, escape_line_separators, write_named

_SEQUENCE_NUMBER = re.compile(r'"sequence_number"\s*:\s*(\d{1,9})\s*[,}]', re.ASCII)


def write_event(body: dict[str, Any]) -> bytes:
    """Return the frame of an event."""
    return b"event: %b\ndata: %b\n\n" % (body["type"].encode(), escape_line_separators(encode_json(body)))


class EventWriter:
    def __init__(self, keepalives: list[int]) -> None:
        self._keepalives = keepalives
        self._number = 2
        """The next sequence number; those before it are of the events that begin a reply."""
        self._is_numbered = True
        """Whether the last event has a sequence number: that of a server may have none."""
        self.last_passed = ""
        """The server's last event, from which the next sequence number follows; empty if it is known."""
        self.output: list[dict[str, Any]] = []
        """The items that have ended."""
        self.index = 0
        """The place of the item that is open, or comes next."""
        self._next_index = 0
        """The place of the next item that starts."""
        self.item_id: Any = ""
        """The id of the item that was started last."""

    @property
    def last_number(self) -> int:
        """The sequence number of the last event."""
        return self._number - 1

    def write(self, kind: str, **fields: Any) -> bytes:
        before = self.write_keepalives() if self._keepalives else b""
        number = self._number
        self._number = number + 1
        numbered = {"sequence_number": number} if self._is_numbered else {}
        return before + write_event({"type": kind, **numbered, **fields})

    def write_of_item(self, kind: str, **fields: Any) -> bytes:
        """Write an event of the item that is open."""
        return self.write(kind, item_id=self.item_id, output_index=self.index, **fields)

    def start_item(self, item: dict[str, Any]) -> bytes:
        self.item_id = item.get("id", "")
        return self.write("response.output_item.added", output_index=self.index, item=item)

    def end_item(self, item: dict[str, Any]) -> bytes:
        out = self.write("response.output_item.done", output_index=self.index, item=item)
        self.output.append(item)
        self._next_index = self.index = max(self._next_index, self.index + 1)
        return out

    def make_delta(self, kind: str, **fields: Any) -> bytes:
        """Return the template of the deltas of the item that is open: its values are the sequence number and JSON."""
        body = encode_json({"type": kind, "item_id": self.item_id, "output_index": self.index, **fields})
        head = b"event: %b\ndata: %b" % (kind.encode(), body[:-1])
        return head.replace(b"%", b"%%") + b',"sequence_number":%d,"delta":%b}\n\n'

    def write_delta(self, template: bytes, text: str) -> bytes:
        data = encode_json(text)
        if not data.isascii():
            data = escape_line_separators(data)
        before = self.write_keepalives() if self._keepalives else b""
        number = self._number
        self._number = number + 1
        return before + template % (number, data)

    def write_heartbeat(self) -> bytes:
        if self._number not in self._keepalives:
            self._keepalives.append(self._number)
        return self.write_keepalives()

    def write_keepalives(self) -> bytes:
        """Write the heartbeats that have the next numbers."""
        out = b""
        while self._number in self._keepalives:
            out += write_event({"type": "keepalive", "sequence_number": self._number})
            self._number += 1
        return out

    def write_passed(self, name: str, text: str) -> bytes:
        """Write an event of a server, whose number it keeps."""
        self._number, self.last_passed = self._number + 1, text
        return write_named(name, text)

    def reserve(self, index: int) -> None:
        """Let items that start get higher places than this one, which an item of a server has."""
        self._next_index = self.index = max(self._next_index, index + 1)

    def reopen(self, index: int, id_: Any) -> None:
        """Let the item with this place and id, which a server has opened, be the open one."""
        self.index, self.item_id = index, id_

    def number_on(self) -> int:
        """Let the next event have the number that follows those of a server, or their count if they have none. Returns
        it."""
        if self.last_passed and not _SEQUENCE_NUMBER.search(self.last_passed):
            self._number -= 2  # the events that begin a reply were among them
        return self.find_number()

    def continue_from(self, number: Any) -> None:
        """Let the next event have this number, or none if the server's event in its place has none."""
        if type(number) is int:
            self._number, self.last_passed = number, ""
        else:
            self._is_numbered = False

    def find_number(self) -> int:
        """Return the next sequence number, which follows that of the server's last event."""
        found = _SEQUENCE_NUMBER.search(self.last_passed) if self.last_passed else None
        if found:
            self._number = int(found[1]) + 1
        self.last_passed = ""
        return self._number


class NoEvents(EventWriter):
    """Writes nothing, for a reply that is one Response."""

    @override
    def write(self, kind: str, **fields: Any) -> bytes:
        return b""

    @override
    def make_delta(self, kind: str, **fields: Any) -> bytes:
        return b""
