"""AutoGen's messages and events (AgentChat 0.4 to 0.7.5, and its core's model messages), both ways."""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from app.chat.messages import Message
from app.formats.autogen.compat import Compat, ModelView
from app.formats.autogen.decode import decode
from app.formats.autogen.encode import Interleaved, Stream, Whole
from app.formats.autogen.history import history
from app.formats.autogen.reply import error_item
from app.formats.autogen.schema import AutogenMessages, all_items
from app.formats.base import Decoded, Encoded, Encoder, Format, Mode, Options, ReplyInfo
from app.formats.violations import violations

_STREAMS: dict[str, type[Stream]] = {"interleaved": Interleaved, "compat": Compat, "model": ModelView}


def _decode(messages: list[Any], options: Options) -> Decoded:
    try:
        items = all_items.validate_python(messages)
    except ValidationError as error:
        return Decoded((), violations(error, messages, "messages", AutogenMessages))
    return Decoded(*decode(items, messages, options.agent))


def _encoder(info: ReplyInfo, mode: Mode) -> Encoder:
    """Snapshots are not AutoGen's: asked for, they are told as deltas."""
    stream = _STREAMS[info.options.autogen_stream](info)
    return Whole(stream) if mode == "whole" else stream


def _encode(messages: Sequence[Message], options: Options) -> Encoded:
    return Encoded(*history(messages, options.agent, options.agent_name))


AUTOGEN = Format("autogen", _decode, _encode, _encoder, AutogenMessages, error=error_item)
