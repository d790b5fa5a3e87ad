"""Short replies of servers of each API, by their host's name."""

import httpx

from tests.in_process_gateway import streamed
from tests.upstream.messages.replies import start, stop, text, write_stream
from tests.upstream.responses.reader import write_stream as write_events

REPLIES = {
    "chat.test": b'data: {"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
    "messages.test": write_stream([start(), *text(0, "ok"), *stop()]),
    "responses.test": write_events(
        {"type": "response.output_text.delta", "output_index": 0, "item_id": "msg_1", "delta": "ok"},
        {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": []}},
    ),
    "gemini.test": b'data: {"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"STOP"}]}\r\n\r\n',
}


def answer_shortly(request: httpx.Request) -> httpx.Response:
    if request.url.path.endswith(("/count_tokens", "/input_tokens")):
        return httpx.Response(200, json={"input_tokens": 7})
    if request.url.path.endswith(":countTokens"):
        return httpx.Response(200, json={"totalTokens": 7})
    return streamed(REPLIES.get(request.url.host, REPLIES["chat.test"]))
