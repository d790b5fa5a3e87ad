"""Replies with faults beside their calls come out as they were, or with a warning, or as an error: for each API, and as
the clients of all formats read them. One fault is tried everywhere, in turns with the formats; all formats with
`FUZZ=long`."""

from itertools import cycle

import pytest
from app.formats import FORMATS

from tests.each_case import each_case
from tests.effort import LONG
from tests.faults.judge_replies import NATIVE, Told, find_difference, find_usages, judge_events, read_batches
from tests.faults.known_replies import APIS, REPLIES, ApiName, write_stream
from tests.faults.reply_model import REPLY_EXCEPTIONS, REPLY_FAULTS, ReplyFault, make_faulty

_SIZE = 7
"""Bytes of a small read."""
_turns = cycle(FORMATS)


@pytest.mark.many_cases
@each_case("fault", REPLY_FAULTS, ids=lambda fault: f"{fault.place}, {fault.operator}")
@each_case("api", APIS)
@each_case("kind", REPLIES)
def test_a_reply_with_a_fault_is_that_reply_or_says_so(fault: ReplyFault, api: ApiName, kind: str) -> None:
    frames = make_faulty(fault, api, REPLIES[kind])
    if frames is None or (fault.place, fault.operator) in REPLY_EXCEPTIONS:
        return
    data = write_stream(frames)
    for passing in (False, True) if api in NATIVE else (False,):
        for size in (len(data), _SIZE):
            batches = read_batches(api, data, size, passing=passing)
            told = Told(batches)
            outcome = judge_events(told, REPLIES[kind], find_usages(REPLIES[kind], may_be_lost=fault.loses_usage))
            assert outcome in fault.expected, (outcome, passing, size, told.messages, told.end)
        formats = [NATIVE[api]] if passing else list(FORMATS) if LONG else [next(_turns)]
        for name in formats:
            assert find_difference(name, batches, told, passing=passing) is None, name


def test_each_exception_is_a_fault_of_the_table() -> None:
    assert REPLY_EXCEPTIONS.keys() <= {(fault.place, fault.operator) for fault in REPLY_FAULTS}
