"""A server of an unknown kind that refuses what servers of known kinds do, and says so in their words, is sent what it
takes with the next attempt: for each rule that a server's words can teach, with odd bodies of clients of every format.

`FUZZ=long` tries 60 times as many bodies, other ones in every run.
"""

import json
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import httpx
import pytest

from tests.conversations.random_conversations import WRITERS
from tests.each_case import each_case
from tests.effort import LONG
from tests.in_process_gateway import ModelServer, Running, streamed
from tests.upstream.strict_bodies import describe, make_body
from tests.upstream.strict_rules import CHAT, RULES

Json = dict[str, Any]
BODIES_OF_A_RULE = 1500 if LONG else 25
_CHUNK = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}


class Taught(NamedTuple):
    rule: str
    kind: str
    """The kind of servers that is known to have the rule."""
    words: str
    """What a server says of a body that it refuses."""
    source: str
    status: int = 400


TAUGHT = (
    Taught(
        "one system message, first",
        "vllm",
        "Chat template error: System message must be at the beginning.",
        "raullenchai/Rapid-MLX#1543",
    ),
    Taught("one system message, first", "vllm", "system message must be at the beginning", "ollama/ollama#17774", 500),
    Taught("a user's message", "vllm", "No user query found in messages.", "Qwen/Qwen3.5-35B-A3B, chat_template.jinja"),
    Taught(
        "a user's message",
        "vllm",
        "The messages parameter is illegal. Please check the documentation.",
        "anomalyco/opencode#2557",
    ),
    Taught(
        "reasoning of calls",
        "deepseek",
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "syt2/paper-chat-for-zotero#16",
    ),
    Taught(
        "reasoning of calls",
        "deepseek",
        "Missing reasoning_content field in the assistant message at message index 2.",
        "dotnet/extensions#7405",
    ),
    Taught(
        "reasoning in the history",
        "groq",
        "messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is unsupported",
        "QwenLM/qwen-code#11045",
    ),
    Taught(
        "form of ids",
        "mistral",
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
        "vllm-project/vllm#47734",
    ),
    Taught(
        "length of ids",
        "openai",
        "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, ...",
        "anomalyco/opencode#12653",
    ),
    Taught(
        "types of formats", "deepseek", "This response_format type is unavailable now", "agentscope-ai/agentscope#1527"
    ),
    Taught(
        "named choice",
        "lmstudio",
        "Invalid tool_choice type: 'object'. Supported string values: none, auto, required",
        "earendil-works/pi#4266",
    ),
    Taught(
        "words of the choice",
        "zhipu",
        "The tool_choice parameter does not support being set to required or object in thinking mode",
        "cloudwego/eino#994",
    ),
    Taught(
        "the newer limit of tokens",
        "openai",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "platform.openai.com",
    ),
    Taught(
        "no stream options",
        "mistral",
        "Extra inputs are not permitted, field: 'stream_options'",
        "FlowiseAI/Flowise#2866",
    ),
)

USER: Json = {"role": "user", "content": "Hi"}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "properties": {}}}}


def write_call(id_: str) -> list[Json]:
    call = {"id": id_, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turn = {"role": "assistant", "content": None, "tool_calls": [call]}
    return [USER, turn, {"role": "tool", "tool_call_id": id_, "content": "r"}, USER]


BREAKS: dict[str, Json] = {
    "one system message, first": {"messages": [USER, {"role": "system", "content": "Be brief."}, USER]},
    "a user's message": {"messages": [{"role": "system", "content": "Be brief."}]},
    "reasoning of calls": {"messages": write_call("c1")},
    "form of ids": {"messages": write_call("c1")},
    "length of ids": {"messages": write_call("c" * 50)},
    "types of formats": {"messages": [USER], "response_format": FORMAT},
}
"""Bodies that break rules which odd ones break seldom."""


class Server:
    """Refuses what breaks one rule, and takes everything else."""

    def __init__(self) -> None:
        self.taught = TAUGHT[0]
        self.refused = 0
        self.model = ModelServer(self._answer)
        upstreams = {str(place): {"base_url": f"http://model{place}.test/v1"} for place in range(len(TAUGHT))}
        models = {str(place): {"upstreams": [str(place)], "max_retries": 0} for place in range(len(TAUGHT))}
        self.running = Running({"upstreams": upstreams, "models": models, "server": {"log_level": "error"}}, self.model)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        body, taught = json.loads(request.content), self.taught
        rules = [one for one in RULES if one.api == CHAT and one.name == taught.rule and taught.kind in one.kinds]
        if any(one.check(body) is not None for one in rules):
            self.refused += 1
            return httpx.Response(taught.status, json={"error": {"message": taught.words}})
        return streamed(b"data: %b\n\ndata: [DONE]\n\n" % json.dumps(_CHUNK).encode())


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    with server.running:
        yield server


@each_case("taught", TAUGHT, ids=lambda taught: f"{taught.rule}: {taught.words[:30]}")
def test_a_rule_is_learned_from_the_words_of_a_refusal(server: Server, taught: Taught) -> None:
    server.taught, server.refused = taught, 0
    dice = Random(None if LONG else taught.words)
    made = (make_body(list(WRITERS)[number % len(WRITERS)], dice)[:2] for number in range(BODIES_OF_A_RULE))
    for path, body in (("/v1/chat/completions", BREAKS.get(taught.rule, {"messages": [USER]})), *made):
        if "{}" in path:
            continue
        server.model.requests.clear()
        answer = server.running.post(path, {**body, "model": str(TAUGHT.index(taught))})
        sent = [json.loads(request.content) for request in server.model.requests]
        assert answer.status == 200 or not sent, describe(answer, body, *sent)
    assert server.refused, "no body has broken the rule"
