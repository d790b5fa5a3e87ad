"""The reader of a reply in chunks of chat completions."""

from typing import Any

from app.chat.token_record import TokenRecord
from app.upstream.chat_completions.assembler import Assembler
from app.upstream.chat_completions.chunk_decoder import ChunkDecoder, EachChunkDecoder
from app.upstream.reply.logprobs import ScoredAssembler, score_items
from app.upstream.reply.reader import ReplyReader
from app.upstream.reply.sse import EventReader


def make_reader(reply_id: str) -> ReplyReader:
    decoder = ChunkDecoder()
    return ReplyReader(EventReader(decoder.decode, decoder), Assembler(reply_id))


def make_scored_reader(record: TokenRecord, reply_id: str) -> ReplyReader:
    """Make a reader that records the log probabilities of the reply's tokens."""
    decoder = EachChunkDecoder()
    assembler = ScoredAssembler(Assembler(reply_id), record)
    return ReplyReader(EventReader(score_items(decoder.decode, _find_tokens), decoder), assembler)


def _find_tokens(chunk: Any) -> Any:
    """Return what the choice that is the reply has; the log probabilities of other choices are not read."""
    choices = chunk.get("choices") if isinstance(chunk, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    given = first.get("logprobs") if isinstance(first, dict) and not first.get("index") else None
    return given.get("content", given) if isinstance(given, dict) else given
