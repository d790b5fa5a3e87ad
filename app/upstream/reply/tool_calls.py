"""Assemble tool calls from fragments: which call a fragment belongs to, and when a call is announced.

This is rule 6 of `docs/reference/assembly.md`. A fragment belongs to the call with its id, else with its index, else
at its position in the delta's list, else to the call opened last; also one with an empty name, if the arguments of that
call are not complete. The first id counts; a missing or repeated one is replaced by a generated one. A call is
announced when its name is certainly complete: with its first argument text, when another call opens, or at the end.
Calls are announced in the order of their indices, so a call whose index leaves a gap waits for the one that fills it.
Several objects as the arguments of one call are several calls, the further ones at the end.
Arguments that begin with a quote are held to the end, because an object that was encoded twice is decoded. So is a call
of a tool that is the server's own, because the server may answer it itself.
"""

from bisect import bisect_left

from app.chat.events import Event, Extra, TextDelta, ToolCallDelta
from app.chat.messages import make_call_id
from app.upstream.reply.chunk import ToolCallFragment
from app.upstream.reply.partial_tool_call import PartialToolCall, clean_name

MAX_CALLS = 1000
"""The limit of one reply."""


class ToolCallAssembler:
    """Assembles the tool calls of one reply."""

    opened = False
    """Whether any call was opened."""
    received = 0
    """How many characters of names and arguments have arrived."""
    too_many = False
    """Whether more than MAX_CALLS calls came; those beyond the limit are dropped."""
    has_more = False
    """Whether anything came behind the complete arguments of a call."""
    nameless = False
    """Whether a call came without a name, so that its arguments have become text."""
    _last: PartialToolCall | None = None
    """The call opened last, the only one that may be unsealed."""
    _announced = 0
    _answered = 0
    """How many announced calls the server has answered itself."""
    _handled = 0
    """How many calls of `_order` are dealt with: announced or, at the end, without a name."""
    _run = 0
    """From this position on, the indices of the calls in `_order` increase."""
    _gap = 0
    """The lowest index that no call has yet."""

    def __init__(self, reply_id: str) -> None:
        self._reply_id = reply_id
        self._order: list[PartialToolCall] = []
        self._ids: dict[str, PartialToolCall] = {}
        self._indices: dict[int, PartialToolCall] = {}
        self._by_position: dict[int, PartialToolCall] = {}
        self._used_ids: set[str] = set()

    @property
    def has_unsealed(self) -> bool:
        """Whether the last call waits for other content, to be announced before it."""
        return self._last is not None and not self._last.sealed

    def __bool__(self) -> bool:
        """Whether the client has a call to run."""
        return self._announced > self._answered

    def feed(self, fragments: list[ToolCallFragment], out: list[Event], *, whole: bool = False) -> None:
        """Add the fragments of one delta. With `whole` (a `message`, not a `delta`) each one is a complete call."""
        for position, fragment in enumerate(fragments):
            if len(self._order) > MAX_CALLS:
                self.too_many = True
                break
            call = self._find(fragment, position, len(fragments), whole)
            self._add_fragment(call, fragment, out)
            if whole and call.name:
                call.take_rest()
        self._announce(out)

    def add_arguments(self, fragment: ToolCallFragment, out: list[Event]) -> bool:
        """Add the only fragment of a delta if it does nothing but continue the arguments of an announced call.

        The result is that of `feed`. Any other fragment is left alone: False.
        """
        function = fragment.function
        if function is None or function.name or fragment.id or fragment.extra_content is not None:
            return False
        return self.extend(fragment.index, function.arguments, out)

    def extend(self, index: int | None, text: str | None, out: list[Event]) -> bool:
        """Do what `add_arguments` does for a fragment with this index that has only arguments."""
        call = self._last if index is None or index < 0 else self._indices.get(index)
        if not text or call is None or call.number < 0:
            return False
        if self._handled < len(self._order) or self._handled > MAX_CALLS:
            return False
        self.received += len(text)
        text = call.add(text)
        if text:
            out.append(ToolCallDelta(call.number, text))
        self.has_more = self.has_more or call.has_more
        return True

    def _find(self, fragment: ToolCallFragment, position: int, count: int, whole: bool) -> PartialToolCall:
        current = None if whole else self._find_current(fragment, position, count)
        if current is None or current.is_ended_by(fragment, fragment.id in self._ids):
            if not whole and self._last is not None and self._last.is_continued_by(fragment):
                return self._last
            return self._open(fragment, position, current)
        return current

    def _find_current(self, fragment: ToolCallFragment, position: int, count: int) -> PartialToolCall | None:
        if fragment.id and fragment.id in self._ids:
            return self._ids[fragment.id]
        if fragment.index is not None and fragment.index >= 0:
            return self._indices.get(fragment.index)
        if count > 1:
            return self._by_position.get(position)
        return self._last

    def _open(self, fragment: ToolCallFragment, position: int, ended: PartialToolCall | None) -> PartialToolCall:
        """Open a call. `ended`: the one that the fragment would belong to otherwise."""
        index = fragment.index if fragment.index is not None and fragment.index >= 0 else None
        call = PartialToolCall(index)
        is_known = not fragment.id or fragment.id in self._ids
        if ended is not None and is_known and ended.is_named_again(fragment):
            call.repeats = ended
        if self._last is not None:
            self._last.seal()
        self._last = call
        self.opened = True
        self._order.insert(self._find_position(call), call)
        self._by_position[position] = call
        if index is not None:
            self._indices[index] = call
            while self._gap in self._indices:
                self._gap += 1
        return call

    def _find_position(self, call: PartialToolCall) -> int:
        """Return where to insert a call: after the announced ones and before higher indices; without an index, last."""
        position = len(self._order)
        if call.index is None:
            self._run = position + 1
        elif call.index in self._indices:
            self._run = position
        else:
            return bisect_left(self._order, call.index, max(self._handled, self._run), key=_index)
        return position

    def _add_fragment(self, call: PartialToolCall, fragment: ToolCallFragment, out: list[Event]) -> None:
        call.fragments += 1
        if fragment.id:
            self._ids.setdefault(fragment.id, call)
            if not call.id and call.number < 0:
                call.id = fragment.id
        if fragment.extra_content is not None:
            call.extra["extra_content"] = fragment.extra_content
            if call.number >= 0:
                out.append(Extra(dict(call.extra), call.number))
        function = fragment.function
        if function is None:
            return
        if fragment.type and fragment.type != "function":
            call.waits_for_answer = True
        self.received += len(function.name or "") + len(function.arguments or "")
        if name := (function.name or "").strip():
            call.add_name(name)
        if function.arguments:
            text = call.add(function.arguments)
            if text and call.number >= 0:
                out.append(ToolCallDelta(call.number, text))
            self.has_more = self.has_more or call.has_more

    def _announce(self, out: list[Event]) -> None:
        """Announce the calls that are ready, in order."""
        while self._handled < len(self._order):
            call = self._order[self._handled]
            if not call.answered:
                if not call.ready() or (call.index is not None and call.index > self._gap):
                    return
                self._announce_call(call, call.text, out)
            self._handled += 1

    def _announce_rest(self, out: list[Event], *, failed: bool) -> None:
        """Emit everything that was held back, because the reply ends."""
        for call in self._order:
            if call.number >= 0 and (rest := call.take_rest(failed=failed)):
                out.append(ToolCallDelta(call.number, rest))
        for call in self._order[self._handled :]:
            self._handled += 1
            if call.repeats is not None and not (failed and call.has_arguments):
                call.seal()
            if call.answered:
                continue
            call.take_rest(failed=failed or not call.name)
            if call.name:
                self._announce_call(call, call.text, out)
            elif call.first:  # arguments without a name become text, so that nothing is lost
                self.nameless = True
                out.append(TextDelta(call.text))
        for call in [call for call in self._order if call.others and call.name and not call.answered]:
            for arguments in call.others:
                self._announce_other(call, arguments, out)

    def _announce_other(self, call: PartialToolCall, arguments: str, out: list[Event]) -> None:
        """Announce a call that the server has sent as a part of another one."""
        id_ = make_call_id(self._reply_id, self._announced)
        out.append(ToolCallDelta(self._announced, arguments, id_, clean_name(call.name)))
        self._announced += 1

    def _announce_call(self, call: PartialToolCall, arguments: str, out: list[Event]) -> None:
        call.number = self._announced
        self._announced += 1
        out.append(ToolCallDelta(call.number, arguments, self._unique_id(call), clean_name(call.name)))
        if call.extra:
            out.append(Extra(dict(call.extra), call.number))

    def _unique_id(self, call: PartialToolCall) -> str:
        id_ = call.id
        if not id_ or id_ in self._used_ids:
            id_ = make_call_id(self._reply_id, call.number)
        self._used_ids.add(id_)
        return id_

    def seal_last_call(self, text: str, out: list[Event]) -> None:
        """Announce the last call before the text that follows it. White space alone does not count as text."""
        last = self._last
        if last is None or last.sealed or text.isspace():
            return
        last.seal()
        self._announce(out)

    def answer(self, id_: str | None) -> None:
        """The server has answered the call with this id; without a known id, all calls so far. They are not the
        client's: those that were held back are left out."""
        known = self._ids.get(id_) if id_ else None
        for call in self._order if known is None else [known]:
            if not call.answered:
                call.answered = True
                self._answered += call.number >= 0

    def close(self, out: list[Event]) -> None:
        """End a complete reply: missing arguments become `{}`, and an object that was encoded twice is decoded."""
        self._announce_rest(out, failed=False)

    def flush(self, out: list[Event]) -> None:
        """End a broken reply: announce the remaining calls with the arguments as they arrived."""
        self._announce_rest(out, failed=True)


def _index(call: PartialToolCall) -> int:
    assert call.index is not None
    return call.index
