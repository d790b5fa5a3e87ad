"""The format of Google's Gemini API: contents with parts."""

from msgspec.structs import replace

from app.formats.base import Encoder, Format, GivenMessage, ReplyInfo, ReplyMode
from app.formats.gemini.errors import WRITE_ERROR
from app.formats.gemini.parse import parse_messages
from app.formats.gemini.schema import GeminiMessages
from app.formats.gemini.stream import HEARTBEAT, GeminiArrayEncoder, GeminiStreamEncoder, GeminiWholeEncoder
from app.formats.gemini.write import write_messages


def _reply_encoder(info: ReplyInfo, mode: ReplyMode) -> Encoder:
    """Return the encoder; Gemini's format has no snapshots, so that mode gives deltas."""
    return GeminiWholeEncoder(info) if mode == "whole" else GeminiStreamEncoder(info)


def _array_encoder(info: ReplyInfo, mode: ReplyMode) -> Encoder:
    return GeminiWholeEncoder(info) if mode == "whole" else GeminiArrayEncoder(info)


def _recognizes(message: GivenMessage) -> bool:
    parts = message.fields.get("parts")
    if not isinstance(parts, list) or "content" in message.fields:
        return False
    return not any(isinstance(part, dict) and ("type" in part or "content" in part) for part in parts)


GEMINI = Format(
    "gemini",
    parse_messages,
    write_messages,
    _reply_encoder,
    GeminiMessages,
    __name__,
    _recognizes,
    write_text=lambda text: {"text": text},
    error=WRITE_ERROR,
    tells_approval=False,
    frame_end=b"\r\n\r\n",
    heartbeat=HEARTBEAT,
)
GEMINI_ARRAY = replace(GEMINI, reply_encoder=_array_encoder, stream_type=b"application/json")
"""The same with streams that are one JSON array: what `streamGenerateContent` gives without `alt=sse`. A reply that is
resumed has the form of `GEMINI`."""
GEMINI_CUT = replace(GEMINI, cuts_failed="streams")
"""The same for clients that skip errors in a stream of events: to them half a text would be a whole reply."""
