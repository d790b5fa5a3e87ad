"""Responses: OpenAI's newer API, which shows reasoning and takes it back."""

from app.upstream.api import Api
from app.upstream.reply.reader import ReplyReader
from app.upstream.reply.sse import EventReader
from app.upstream.responses.assembler import ResponsesAssembler
from app.upstream.responses.event import decode
from app.upstream.responses.repair import strip_reasoning
from app.upstream.responses.request import build


def make_reader(reply_id: str) -> ReplyReader:
    return ReplyReader(EventReader(decode), ResponsesAssembler(reply_id))


API = Api(
    "/responses", build, make_reader, conversation="input", system="instructions", strip_reasoning=strip_reasoning
)
