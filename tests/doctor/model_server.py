"""A model server with faults, for the checks of `parley doctor`."""

import asyncio
import json
from typing import Any

from app.doctor.probes import HUGE_OUTPUT
from typing_extensions import override

from tests.scripted_server import Reply, Request, ScriptedServer

JSON = {"content-type": "application/json"}


def json_reply(status: int, value: Any, **headers: str) -> Reply:
    body = json.dumps(value).encode()
    return Reply([body], status, JSON | {"content-length": str(len(body))} | headers)


def make_stream(**delta: Any) -> Reply:
    """A reply with one delta."""
    chunk = {"id": "1", "choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}
    return Reply([f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()])


CALL = {"index": 0, "id": "c1", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
OK = make_stream(content="OK")
CALLED = make_stream(tool_calls=[CALL])
THOUGHT = make_stream(reasoning_content="17 + 25 is 42.", content="42")


class FaultyServer(ScriptedServer):
    """Lists models under /v1, and answers questions with and without tools."""

    def __init__(
        self,
        *models: str,
        key: str | None = None,
        owner: str = "someone",
        context: int | None = None,
        tools: Reply = CALLED,
        reasoning: Reply = THOUGHT,
        huge: Reply = OK,
        date: str | None = None,
        hold: asyncio.Event | None = None,
    ) -> None:
        super().__init__()
        self._models, self._key, self._owner = models, key, owner
        self._context = {} if context is None else {"max_model_len": context}
        self._tools, self._reasoning, self._huge = tools, reasoning, huge
        """The answers to a request with functions, to one without, and to one for very many tokens."""
        self._headers = {"date": date} if date else {}
        self._hold = hold
        """Set: `/models` is not answered before this event."""

    @override
    def reply_to(self, request: Request) -> Reply:
        if request.path not in ("/v1/models", "/v1/chat/completions"):
            return json_reply(404, {"detail": "Not Found"}, **self._headers)
        if self._key is not None and request.headers.get("authorization") != f"Bearer {self._key}":
            quoted = request.headers.get("authorization")
            return json_reply(401, {"error": {"message": f"Incorrect API key: {quoted}"}})
        if request.method == "GET":
            rows = [{"id": name, "owned_by": self._owner, **self._context} for name in self._models]
            listed = json_reply(200, {"object": "list", "data": rows})
            return listed if self._hold is None else Reply(listed.chunks, 200, listed.headers, hold=self._hold)
        body = json.loads(request.body or b"{}")
        if body.get("model") not in self._models:
            return json_reply(404, {"error": {"message": f"The model {body.get('model')!r} does not exist."}})
        if body.get("max_tokens") == HUGE_OUTPUT:
            return self._huge
        return self._tools if "tools" in body else self._reasoning

    @property
    def questions(self) -> list[Any]:
        """The bodies of the chat requests. An empty one only shows that the path is there."""
        chats = [request for request in self.requests if request.path.endswith("completions")]
        return [json.loads(request.body) for request in chats if request.body not in (b"", b"{}")]
