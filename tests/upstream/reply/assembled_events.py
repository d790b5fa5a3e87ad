"""The events of a reply that is given line by line."""

from app.chat.events import Event
from app.upstream.chat_completions import chunk_decoder
from app.upstream.chat_completions.assembler import Assembler
from app.upstream.reply.sse import EventReader


def events(*lines: bytes) -> list[Event]:
    reader, assembler = EventReader(chunk_decoder.decode), Assembler("chat-1")
    found: list[Event] = []
    for line in lines:
        found += assembler.feed(reader.feed(b"data: " + line + b"\n\n"))
    return found + assembler.close()
