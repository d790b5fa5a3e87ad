"""The reader of a reply in chunks of chat completions."""

from app.upstream.chat_completions.assembler import Assembler
from app.upstream.chat_completions.chunk_decoder import ChunkDecoder
from app.upstream.reply.reader import ReplyReader
from app.upstream.reply.sse import EventReader


def make_reader(reply_id: str) -> ReplyReader:
    decoder = ChunkDecoder()
    return ReplyReader(EventReader(decoder.decode, decoder), Assembler(reply_id))
