"""A reader of chat completions reads what follows a text that it has seen."""

from app.chat.events import Finish, TextDelta
from app.upstream.chat_completions.reader import make_reader


def test_each_reader_begins_anew() -> None:
    chunks = [b'data: {"choices": [{"index": 0, "delta": {"content": "%d"}}]}\n\n' % number for number in range(20)]
    end = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    for _ in range(2):
        reader, assembler = make_reader("r")
        events = [event for part in (*chunks, end) for event in assembler.feed(reader.feed(part))]
        assert events[:-1] == [TextDelta(str(number)) for number in range(20)]
        assert isinstance(events[-1], Finish)
