"""Chat completions: OpenAI's older API, which nearly every model server speaks."""

from app.openai_messages.messages import write_beginning
from app.upstream.api import Api
from app.upstream.chat_completions.reader import make_reader, make_scored_reader
from app.upstream.chat_completions.refused_messages import MESSAGE_REPAIRS
from app.upstream.chat_completions.repair import strip_reasoning
from app.upstream.chat_completions.request import build
from app.upstream.refused_fields import OPENAI_REPAIRS

API = Api(
    "/chat/completions",
    build,
    make_reader,
    fields=frozenset(("model", "messages", "stream", "tools", "tool_choice", "stream_options")),
    make_scored_reader=make_scored_reader,
    write_beginning=write_beginning,
    strip_reasoning=strip_reasoning,
    repairs={**MESSAGE_REPAIRS, **OPENAI_REPAIRS},
)
