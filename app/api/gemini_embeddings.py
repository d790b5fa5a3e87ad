"""The endpoints `:embedContent` and `:batchEmbedContents` of Google's Gemini API.

The model's server gets a request of `/v1/embeddings`, which goes the way of every request that passes through.
"""

import msgspec
from typing_extensions import override

from app.api.answer_response import AnswerResponse
from app.api.asgi import wait_for_parse_memory
from app.api.chat import RequestInProgress
from app.api.context import AppContext
from app.api.passing import PassingEndpoint
from app.api.reply_response import ResponseLimits
from app.api.response_writer import ResponseWriter
from app.chat.events import AnswerPart, Event, Fault, Finish
from app.endpoints.body import EndpointBody, read_fields
from app.endpoints.kinds import ENDPOINTS
from app.errors import UpstreamFailed
from app.formats.base import ReplyInfo
from app.formats.gemini import GEMINI
from app.formats.gemini.embeddings import parse_embed_body, write_embeddings

_PATH = "/v1/embeddings"
_EMBEDDINGS = next(endpoint for endpoint in ENDPOINTS if _PATH in endpoint.paths)


class GeminiEmbeddings(PassingEndpoint):
    """The endpoint of one request: the name of its model is in its path."""

    def __init__(self, context: AppContext, model: str, *, batch: bool) -> None:
        super().__init__(context, _EMBEDDINGS)
        self._model = model
        self._batch = batch

    @override
    async def _read_body(self, raw: bytes | bytearray, request: RequestInProgress) -> EndpointBody:
        await wait_for_parse_memory(raw, request.lease, request.live.settings.server.max_json_values)
        return read_fields(msgspec.json.encode(parse_embed_body(raw, self._model, batch=self._batch)))

    @override
    def _find_path(self, request: RequestInProgress) -> str:
        return _PATH

    @override
    def _create_response(self, request: RequestInProgress, info: ReplyInfo) -> AnswerResponse:
        return _EmbeddingsResponse(request.writer, info, self._context.replies.limits, batch=self._batch)


class _EmbeddingsResponse(AnswerResponse):
    """Sends the answer when it is whole."""

    def __init__(self, writer: ResponseWriter, info: ReplyInfo, limits: ResponseLimits, *, batch: bool) -> None:
        super().__init__(writer, info, GEMINI, limits)
        self._batch = batch
        self._parts: list[bytes] = []

    @override
    def _write_part(self, part: AnswerPart, end: Event | None) -> None:
        self._parts.append(part.data)

    @override
    def _end(self, finish: Finish) -> None:
        try:
            body = write_embeddings(msgspec.json.decode(b"".join(self._parts)), batch=self._batch)
        except (ValueError, msgspec.MsgspecError) as error:
            fault = Fault("upstream_protocol", f"the model server's answer cannot be read: {error}", transient=False)
            self.fail(UpstreamFailed(fault))
            return
        self.outcome = finish
        self._send_body(200, msgspec.json.encode(body), {})
