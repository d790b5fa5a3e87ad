"""The endpoints `:embedContent` and `:batchEmbedContents` of Google's Gemini API.

The model's server gets a request of `/v1/embeddings`, which goes the way of every request that passes through; one of
the same API gets the client's own.
"""

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from app.api.answer_response import AnswerResponse
from app.api.asgi import wait_for_parse_memory
from app.api.context import AppContext
from app.api.gemini_embeddings_response import EmbeddingsResponse
from app.api.passing import PassingEndpoint
from app.api.request_in_progress import RequestInProgress
from app.endpoints.body import EndpointBody, OwnBody, read_fields
from app.endpoints.kinds import ENDPOINTS
from app.errors import InvalidInput
from app.formats.base import ReplyInfo
from app.formats.gemini.embeddings import parse_embed_body
from app.formats.json_object import parse_object

_API, _PATH = "gemini", "/v1/embeddings"
_EMBEDDINGS = next(endpoint for endpoint in ENDPOINTS if _PATH in endpoint.paths)


class GeminiEmbeddings(PassingEndpoint):
    """The endpoint of one request: the name of its model is in its path."""

    def __init__(self, context: AppContext, model: str, *, batch: bool) -> None:
        super().__init__(context, _EMBEDDINGS)
        self._model = model
        self._batch = batch
        self._count = 0
        """How many texts the request has; 0: only a server of the same API can read it."""

    @override
    async def _read_body(self, raw: bytes | bytearray, request: RequestInProgress) -> EndpointBody:
        await wait_for_parse_memory(raw, request.lease, request.live.settings.server.max_json_values)
        given = parse_object(raw)
        own = OwnBody(_API, "batchEmbedContents" if self._batch else "embedContent", given)
        try:
            parsed = parse_embed_body(given, self._model, batch=self._batch)
            body, self._count = read_fields(msgspec.json.encode(parsed)), len(parsed["input"])
        except InvalidInput as error:  # a server of Google's may know more: its tokens are estimated by the whole body
            own = replace(own, refusal=error)
            body = EndpointBody({"input": msgspec.Raw(bytes(raw))}, self._model)
        return replace(body, own=own)

    @override
    def _find_path(self, request: RequestInProgress) -> str:
        return _PATH

    @override
    def _create_response(self, request: RequestInProgress, info: ReplyInfo) -> AnswerResponse:
        return EmbeddingsResponse(request.writer, info, self._context.replies.limits, self._count, batch=self._batch)
