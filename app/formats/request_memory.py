"""`RequestMemory`: what was read of the requests of a caller, because an agent sends its conversation again each time.

A request mostly repeats an earlier one of its caller, up to a place near the end of the conversation. The bytes of both
are compared from their beginning, and the entries of the conversation before the first difference are not read again:
they are the objects of the earlier request. `read_json` alone decides what a value is; msgspec only finds where the
values of a body begin and end. What is refused is not remembered, and a body that cannot be read with what is
remembered is read as a whole.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from threading import Lock
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from app.chat.known_conversation import CHANGED_MESSAGES, KnownConversation
from app.formats.entry_schemas import EntrySchema, validate_rest
from app.formats.json_reader import read_json
from app.runtime.common_bytes import count_common_start
from app.runtime.value_count import find_marks, max_values

T = TypeVar("T")

MIN_BYTES = 16 * 1024
"""Shorter bodies are read as a whole: to compare them would cost as much as it saves."""
HELD_FOR_BYTE = 7
"""How many bytes are counted for each byte of a request: its bytes, its JSON value, and what was made of it."""
HELD_FOR_OBJECT = 250
"""How many bytes are counted in addition for each object and list in a request."""
MAX_STATES = 4
"""How many states of one kind are kept of a conversation."""
_LEAST_PART = 4
"""A request is read as a whole if it begins like an earlier one for less than this part: two conversations of a client
often have their first messages in common."""
_MAX_COMPARED = 64
"""With how many requests of its caller a request is compared, the most recent ones first."""
_LARGEST_SHARE = 4
"""A request that would take more than this part of the memory is not remembered: others would be dropped for it."""
_CONVERSATIONS = ("messages", "input", "contents")
"""The fields that may be the list of a conversation."""
_OTHER_LISTS = ("tools", "functions", "system")
"""The other fields whose first object is a `FirstEntry`."""


class FirstEntry(dict[str, Any]):
    """The first object in a list of a body, and what was found out about lists that begin with it. No entry of such a
    list is ever changed."""

    __slots__ = ("found",)

    def __init__(self, value: Mapping[str, Any]) -> None:
        super().__init__(value)
        self.found: dict[Any, Any] = {}
        """The states of these lists, the newest first, by what they were kept for. Requests in several threads may
        write to it, so that what one of them has found may be lost."""


class _Places:
    """Where the entries of a conversation end in a body, and what is counted for the body up to there."""

    __slots__ = ("bounds", "ends", "sizes", "start")

    def __init__(self, start: int, ends: list[int], bounds: list[int], sizes: list[int]) -> None:
        self.start = start
        """Where the first one begins, after the bracket."""
        self.ends = ends
        self.bounds = bounds
        """`max_values` up to the first entry, and up to the end of each one."""
        self.sizes = sizes
        """The memory that is counted up to these places."""

    def copy(self, count: int) -> "_Places":
        """Return the places of the first entries."""
        return _Places(self.start, self.ends[:count], self.bounds[: count + 1], self.sizes[: count + 1])

    def add(self, raw: bytes, entries: Sequence[msgspec.Raw]) -> None:
        """Add the places of the entries that follow."""
        place = self.ends[-1] if self.ends else self.start
        for entry in entries:
            begin = _GAP.match(raw, place).end()  # type: ignore[union-attr]  # it matches nothing, too
            end = begin + memoryview(entry).nbytes
            marks = find_marks(raw[place:end])
            self.bounds.append(self.bounds[-1] + 1 + len(marks))
            self.sizes.append(self.sizes[-1] + _count_held(end - place, marks))
            self.ends.append(end)
            place = end


class RememberedRequest:
    """The bytes of a request, its lists, and where the entries of its conversation are."""

    __slots__ = ("conversation", "entries", "field", "lists", "places", "raw", "raw_lists", "size")

    def __init__(
        self,
        raw: bytes,
        field: str,
        body: Mapping[str, Any],
        places: _Places | None = None,
        marks: bytes | bytearray | None = None,
    ) -> None:
        """`field` is the name of the conversation in the `body`. `marks` are those of `raw`, if they are known."""
        self.raw = raw
        self.field = field
        self.entries: list[Any] = list(body[field])
        self.lists = {name: body[name] for name in _OTHER_LISTS if isinstance(body.get(name), list)}
        self.raw_lists: dict[str, bytes] = {}
        self.places = places
        """None: not known, because only a second request needs to know them."""
        end, before = (places.ends[-1], places.sizes[-1]) if places is not None and places.ends else (0, 0)
        self.size = before + _count_held(len(raw) - end, find_marks(raw[end:]) if marks is None else marks)
        """About how many bytes of memory it takes."""
        self.conversation = KnownConversation()
        """What was made of the conversation; requests that go on with it have the same one."""

    def forget(self, successor: "RememberedRequest | None" = None) -> None:
        """Drop what was found out about lists, unless the `successor` has lists that begin with the same objects. It
        refers to these objects again, so that they would wait for the garbage collector, which runs rarely."""
        kept = {id(first) for first in successor.list_first()} if successor is not None else ()
        for first in self.list_first():
            if id(first) not in kept:
                first.found.clear()

    def list_first(self) -> Iterator[FirstEntry]:
        for entries in (self.entries, *self.lists.values()):
            if entries and type(entries[0]) is FirstEntry:
                yield entries[0]

    def find_places(self) -> _Places:
        """Return where the entries are; without an end if they are not to be found."""
        if self.places is None:
            fields = _read_fields(self.raw)
            listed = bytes(fields[self.field])
            start = self._find_list(listed)
            marks = find_marks(self.raw[: start or 0])
            found = _Places(start or 0, [], [1 + len(marks)], [_count_held(start or 0, marks)])
            if start is not None:
                self.raw_lists = {name: bytes(fields[name]) for name in self.lists}
                found.add(self.raw, _read_entries(listed))
            self.places = found
        return self.places

    def _find_list(self, listed: bytes) -> int | None:
        """Return the place after the bracket of the conversation, whose text is `listed`. It may be that of another
        list of the same text: `read_after` finds out."""
        key, at = b'"%b"' % self.field.encode(), -1
        while (at := self.raw.find(key, at + 1)) >= 0:
            match = _COLON.match(self.raw, at + len(key))
            if match is not None and self.raw.startswith(listed, match.end()):
                return match.end() + 1
        return None

    def count_common_entries(self, common: int) -> int:
        """Return how many entries lie within the first `common` bytes; the last of them is an object, which cannot go
        on after its bracket."""
        count = bisect_right(self.find_places().ends, common)
        while count and not isinstance(self.entries[count - 1], dict):
            count -= 1
        return count

    def read_after(self, count: int, raw: bytes) -> "_Read":
        """Read a request that has the same bytes up to the end of this one's first `count` entries.

        The body is read without these entries. A word that it does not have is in their place, which shows whether the
        list is the conversation. Raises ValueError or msgspec.DecodeError if it is not, or if the body is not valid.
        """
        places, word = self.find_places().copy(count), _WORD
        end = places.ends[-1]
        before, after = raw[: places.start], raw[end:]
        while word in before or word in after:
            word = b'"%b"' % (word[1:-1] * 2)
        fields = _read_fields(before + word + after)
        remembered = end - places.start
        body: dict[str, Any] = {}
        new: list[msgspec.Raw] = []
        for name, field in fields.items():
            text = bytes(field)
            if name == self.field:
                new = _read_entries(text)
                body[name] = [*self.entries[:count], *[_read_entry(bytes(entry)) for entry in new[1:]]]
            elif name in self.lists and text == self.raw_lists[name]:
                body[name] = self.lists[name]
                remembered += len(text)
            else:
                value = read_json(b"[%b]" % text)[0]
                body[name] = _make_entries(value) if name in _OTHER_LISTS else value
        if not new or bytes(new[0]) != word:
            raise ValueError("the list is not the conversation")
        places.add(raw, new[1:])
        request = RememberedRequest(raw, self.field, body, places)
        request.raw_lists = {name: bytes(fields[name]) for name in request.lists}
        request.conversation = self.conversation
        return body, request, remembered


_Read: TypeAlias = tuple[dict[str, Any], RememberedRequest, int]
"""A body, what is to be remembered of it, and how many of its bytes were not read."""


class RequestMemory:
    def __init__(
        self,
        max_bytes: int,
        count: Callable[[int, int], None] = lambda _remembered, _new: None,
        report: Callable[[Exception], None] = lambda _error: None,
    ) -> None:
        """`max_bytes` bounds the estimated size of what is remembered of all callers; 0: nothing is. `count` is called
        for each body, in any thread, with how many bytes of it were remembered, and how many were not; `report` with
        what went wrong in the memory when a body was read as a whole for it."""
        self._max_bytes = max_bytes
        self._bytes = 0
        self._requests: dict[str, dict[int, RememberedRequest]] = {}
        """The requests of each caller, the most recent last."""
        self._callers: dict[int, str] = {}
        """The caller of each request, the most recent request last."""
        self._added = 0
        self._lock = Lock()
        self.count = count
        self.report = report

    def open(self, scope: str) -> "CallerMemory | None":
        """Return the memory of one caller, for one request; None if nothing is remembered."""
        return CallerMemory(self, scope) if self._max_bytes else None

    def find(self, scope: str, raw: bytes) -> tuple[RememberedRequest | None, int]:
        """Return the caller's request that has the longest beginning in common with `raw`, and its length in bytes."""
        with self._lock:
            requests = [*self._requests.get(scope, {}).values()][-_MAX_COMPARED:]
        found, longest = None, 0
        for request in reversed(requests):
            if request.raw[longest : longest + _PROBE_BYTES] != raw[longest : longest + _PROBE_BYTES]:
                continue
            common = count_common_start(request.raw, raw)
            if common > longest:
                found, longest = request, common
        return found, longest

    def is_too_large(self, size: int) -> bool:
        """Whether a request that would take so many bytes of memory is not remembered."""
        return size > self._max_bytes // _LARGEST_SHARE

    def add(self, scope: str, request: RememberedRequest, instead_of: RememberedRequest | None = None) -> None:
        """Remember a request of a caller, `instead_of` another one that it repeats."""
        with self._lock:
            held = self._requests.get(scope, {})
            for number in _find_numbers(held, instead_of):
                self._drop(number, request)
            self._added += 1
            self._requests.setdefault(scope, {})[self._added] = request
            self._callers[self._added] = scope
            self._bytes += request.size
            while self._bytes > self._max_bytes:
                self._drop(next(iter(self._callers)))

    def remove(self, scope: str, request: RememberedRequest) -> None:
        """Remember a request no more."""
        with self._lock:
            for number in _find_numbers(self._requests.get(scope, {}), request):
                self._drop(number)

    def _drop(self, number: int, successor: RememberedRequest | None = None) -> None:
        scope = self._callers.pop(number)
        requests = self._requests[scope]
        request = requests.pop(number)
        self._bytes -= request.size
        if successor is None:  # another conversation may begin with the same objects
            successor = next((one for one in requests.values() if one.entries[0] is request.entries[0]), None)
        request.forget(successor)
        if not requests:
            del self._requests[scope]


def _find_numbers(held: Mapping[int, RememberedRequest], request: RememberedRequest | None) -> list[int]:
    return [number for number, other in held.items() if other is request]


class CallerMemory:
    """The memory of one caller, for one request."""

    def __init__(self, memory: RequestMemory, scope: str) -> None:
        self._memory = memory
        self._scope = scope
        self._compared: bytes | bytearray | None = None
        self._earlier: RememberedRequest | None = None
        """The request that this one repeats."""
        self._known = 0
        """How many of its entries are repeated."""
        self._marks: bytes | bytearray | None = None
        """Those of the request, once they were found."""
        self.conversation: KnownConversation | None = None
        """What was made of the conversation of the request, once it was read."""
        self._read: RememberedRequest | None = None
        """The request, once it was read, until it is remembered or refused."""
        self._found: list[tuple[FirstEntry, dict[Any, Any]]] = []
        """What was found out about its lists before it was read."""

    def compare(self, raw: bytes | bytearray) -> int:
        """Compare a request with the earlier ones; return how many bytes of it need not be read."""
        if self._compared is not raw:
            self._compared, self._earlier = raw, None
            if self._is_compared(raw):
                self._find_earlier(bytes(raw))
        if self._earlier is None:
            return 0
        places = self._earlier.find_places()
        return places.ends[self._known - 1] - places.start

    def _find_earlier(self, raw: bytes) -> None:
        found, common = self._memory.find(self._scope, raw)
        if found is None or common * _LEAST_PART <= len(raw):
            return
        try:
            self._known = found.count_common_entries(common)
        except Exception as error:  # whatever it is, the body can be read without
            self._forget(found, error)
        else:
            self._earlier = found if self._known else None

    def _forget(self, earlier: RememberedRequest, error: Exception) -> None:
        """Read a body as a whole, and no other one with this earlier request, which cannot be read with it."""
        self._earlier = None
        self._memory.remove(self._scope, earlier)
        self._memory.report(error)

    def _is_compared(self, raw: bytes | bytearray) -> bool:
        """Whether a body is compared: it is not short, and of a large one a copy would be made."""
        return len(raw) >= MIN_BYTES and not self._memory.is_too_large(len(raw) * HELD_FOR_BYTE)

    def max_values(self, raw: bytes | bytearray) -> int:
        """Return an upper bound of the number of values in a request that repeats an earlier one."""
        assert self._earlier is not None
        places = self._earlier.find_places()
        return places.bounds[self._known] + max_values(raw[places.ends[self._known - 1] :])

    def find_marks(self, raw: bytes | bytearray) -> bytes | bytearray:
        """Return `find_marks` of a request that is read afterwards."""
        self._marks = find_marks(raw)
        return self._marks

    def read_object(self, raw: bytes | bytearray) -> dict[str, Any] | None:
        """Return the object that a body is, in whose lists the first object is a `FirstEntry`. It is remembered only
        once it is accepted: `remember` or `refuse` follows.

        None if it must be read as a whole: it is short or large, is not valid JSON, or has no conversation.
        """
        if not self._is_compared(raw):
            return None
        self.compare(raw)
        data = bytes(raw)
        found = self._read_after(data) or self._read_whole(data)
        if found is None:
            return None
        body, request, remembered = found
        if self._memory.is_too_large(request.size):
            self._memory.count(0, len(raw))
            self._earlier = None
            return {name: _make_plain(value) for name, value in body.items()}
        self._memory.count(remembered, len(raw) - remembered)
        self.conversation, self._read = request.conversation, request
        self._found = [(first, first.found.copy()) for first in request.list_first()]
        return body

    def _read_after(self, data: bytes) -> _Read | None:
        """Read a body that goes on with an earlier request; None if it does not."""
        earlier = self._earlier
        if earlier is None:
            return None
        try:
            return earlier.read_after(self._known, data)
        except (ValueError, msgspec.DecodeError, RecursionError):
            self._earlier = None  # it is not valid, or the beginning of both is not that of the conversation
        except Exception as error:  # whatever it is, the body can be read without
            self._forget(earlier, error)
        return None

    def _read_whole(self, data: bytes) -> _Read | None:
        try:
            body = read_json(data)
        except ValueError:
            return None
        field = _find_conversation(body)
        if field is None:
            return None
        body |= {name: _make_entries(body[name]) for name in (field, *_OTHER_LISTS) if name in body}
        return body, RememberedRequest(data, field, body, marks=self._marks), 0

    def remember(self) -> None:
        """Remember the request that was read: it is accepted."""
        request, earlier = self._read, self._earlier
        self._read, self._found, self._compared, self._earlier = None, [], None, None
        if request is not None:
            repeated = earlier is not None and self._known >= len(earlier.entries) - CHANGED_MESSAGES
            self._memory.add(self._scope, request, earlier if repeated else None)

    def refuse(self) -> None:
        """Leave nothing of the request that was read, if it is not remembered: what was found out about its lists goes,
        and what had been known of them comes back."""
        found, self._read, self._found, self._compared, self._earlier = self._found, None, [], None, None
        for first, before in found:
            first.found = before


def _find_conversation(body: Any) -> str | None:
    """Return the name of the list that is the conversation of a body; None if it has none."""
    if not isinstance(body, dict):
        return None
    return next((name for name in _CONVERSATIONS if isinstance(body.get(name), list) and body[name]), None)


_PROBE_BYTES = 32
_WORD = b'"the entries that are known"'
_COLON = re.compile(rb"[ \t\n\r]*:[ \t\n\r]*")
_GAP = re.compile(rb"[ \t\n\r,]*")
_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_entries = msgspec.json.Decoder(list[msgspec.Raw]).decode


def _count_held(size: int, marks: bytes | bytearray) -> int:
    """Return what is counted for a part of a request, with its commas and brackets: it has at most as many objects and
    lists as brackets."""
    return size * HELD_FOR_BYTE + (len(marks) - marks.count(b",")) * HELD_FOR_OBJECT


def _read_entry(raw: bytes) -> Any:
    """Read an entry of a list of the body. The brackets count for the depth, which is limited from the outside."""
    return read_json(b"[[%b]]" % raw)[0][0]


def _make_entries(value: Any) -> Any:
    is_list = isinstance(value, list) and value and type(value[0]) is dict
    return [FirstEntry(value[0]), *value[1:]] if is_list else value


def _make_plain(value: Any) -> Any:
    """Return a list without `FirstEntry`."""
    is_list = isinstance(value, list) and value and type(value[0]) is FirstEntry
    return [dict(value[0]), *value[1:]] if is_list else value


class _KeptState(Struct, frozen=True):
    entries: list[Any]
    """The entries that it is the state after."""
    state: Any


Resumed: TypeAlias = tuple[int, Any, Sequence[int]]
"""How many entries at the beginning of a list are known, the state after them, and after how many entries a state is
worth keeping."""
NOTHING_KNOWN: Resumed = (0, None, ())


def resume(entries: Sequence[Any], what: Any) -> Resumed:
    """Return what was kept of a conversation for `what`: the state after the most entries, None if there is none.

    States are worth keeping after all entries, with which the next request begins, and after all that are not among the
    last ones. None is of a list that is not remembered, whose first entry is no `FirstEntry`.
    """
    if not entries or type(entries[0]) is not FirstEntry:
        return NOTHING_KNOWN
    kept = _find_state(entries[0], entries, what)
    known, state = (0, None) if kept is None else (len(kept.entries), kept.state)
    places = (len(entries) - CHANGED_MESSAGES, len(entries))
    return known, state, [number for number in places if number > known]


def keep(entries: Sequence[Any], number: int, what: Any, state: Any) -> None:
    """Keep the state after the first `number` entries of a conversation, which depends on nothing else and must not be
    changed. `resume` has said that it is worth keeping."""
    first: FirstEntry = entries[0]
    kept: tuple[_KeptState, ...] = first.found.get(what, ())
    first.found[what] = (_KeptState(list(entries[:number]), state), *kept[: MAX_STATES - 1])


def _find_state(first: FirstEntry, entries: Sequence[Any], what: Any) -> _KeptState | None:
    """Return what was kept for `what` after the most of the entries."""
    found: _KeptState | None = None
    for kept in first.found.get(what, ()):
        count = len(kept.entries)
        is_longer = count <= len(entries) and (found is None or count > len(found.entries))
        if is_longer and kept.entries[-1] is entries[count - 1] and all(map(is_, kept.entries, entries)):
            found = kept
    return found


def map_entries(entries: Sequence[Any], function: Callable[[Sequence[Any]], list[T]]) -> list[T]:
    """Return what the function returns for entries: one value for each, which depends on nothing else and must not be
    changed. It is not given those again that begin an earlier conversation."""
    known, done, places = resume(entries, function)
    made: list[T] = [*(done or ()), *function(entries[known:])]
    for place in places:
        keep(entries, place, function, made[:place])
    return made


def recall(entries: Sequence[Any], what: Any, make: Callable[[], T]) -> T:
    """Return what was found out about a whole list for `what`, else what `make` returns, which must not be changed."""
    known, found, places = resume(entries, what)
    if known < len(entries) or not known:
        found = make()
        if places:
            keep(entries, len(entries), what, found)
    return found  # type: ignore[no-any-return]  # `what` says of which type it is


def validate_entries(entries: Any, schema: EntrySchema) -> Any:
    """Validate a list, but for those entries that are known to be valid.

    Raises ValidationError, the same as for the list as a whole.
    """
    if not isinstance(entries, list):
        return schema.whole.validate_python(entries)
    known, done, places = resume(entries, schema.whole)
    valid = [*(done or ()), *validate_rest(entries, known, schema)]
    for place in places:
        keep(entries, place, schema.whole, valid[:place])
    return valid
