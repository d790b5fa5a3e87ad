"""The answers of `:embedContent` and `:batchEmbedContents`. The class that they derive from is compiled, and so is this
one."""

import msgspec
from typing_extensions import override

from app.api.answer_response import AnswerResponse
from app.api.reply_response import ResponseLimits
from app.api.response_writer import ResponseWriter
from app.chat.events import AnswerPart, Event, Fault, Finish
from app.errors import UpstreamFailed
from app.formats.base import ReplyInfo
from app.formats.gemini import GEMINI
from app.formats.gemini.embeddings import is_own_answer, write_embeddings


class EmbeddingsResponse(AnswerResponse):
    """Sends the answer when it is whole."""

    def __init__(
        self, writer: ResponseWriter, info: ReplyInfo, limits: ResponseLimits, count: int, *, batch: bool
    ) -> None:
        """`count` is the number of texts in the request."""
        super().__init__(writer, info, GEMINI, limits)
        self._count = count
        self._batch = batch
        self._parts: list[bytes] = []

    @override
    def _write_part(self, part: AnswerPart, end: Event | None) -> None:
        self._parts.append(part.data)

    @override
    def _end(self, finish: Finish) -> None:
        data = b"".join(self._parts)
        try:
            answer = msgspec.json.decode(data)
            if not is_own_answer(answer):
                data = msgspec.json.encode(write_embeddings(answer, self._count, batch=self._batch))
        except (ValueError, msgspec.MsgspecError) as error:
            fault = Fault("upstream_protocol", f"the model server's answer cannot be read: {error}", transient=False)
            self.fail(UpstreamFailed(fault))
            return
        self.outcome = finish
        self._send_body(200, data, {})
