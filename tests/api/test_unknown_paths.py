"""Paths of other APIs that are not served: the error says what is served instead."""

import pytest
from app.api.unknown_paths import describe_unknown_path, describe_wrong_method, find_unserved

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running
from tests.linear_time import linear

COMPLETIONS = "send the prompt as a user message to POST /v1/chat/completions"
SERVER = "send this request to the model server itself"


@each_case("method", ["GET", "POST"])
@each_case(
    ("path", "text"),
    [
        ("/api/embeddings", "Embeddings are served by POST /v1/embeddings."),
        ("/api/embed", "Embeddings are served by POST /v1/embeddings."),
        ("/rank", "Rankings are served by POST /v1/rerank."),
        ("/v1/engines/m/completions", "Text completions are served by POST /v1/completions."),
        ("/v1/complete", "Text completions are served by POST /v1/completions."),
        ("/api/generate", "Text completions are served by POST /v1/completions."),
        ("/openai/v1/moderations", "Moderation is served by POST /v1/moderations."),
        (
            "/api/chat",
            "Ollama's own API is not served: send the conversation to POST /v1/chat/completions.",
        ),
        (
            "/api/tags",
            "Ollama's own API is not served: GET /v1/models lists the models, and POST /v1/chat/completions takes"
            " conversations.",
        ),
        (
            "/openai/deployments/gpt/chat/completions",
            "Azure's paths with a deployment are not served: send the conversation to POST /v1/chat/completions, with"
            " `model` in the body.",
        ),
        (
            "/v1/files/file-1/content",
            "Files are not stored here: send their content in a message, as a data URI or a URL.",
        ),
        (
            "/v1/threads/t/runs",
            "Conversations are not stored here: send all messages, or use POST /v1/responses with"
            " `previous_response_id`.",
        ),
        (
            "/v1/messages/batches",
            "Batches are not served: send each request by itself. POST /v1/responses with `background: true` replies"
            " later.",
        ),
        (
            "/v1",
            "This is the base URL that OpenAI's SDKs take; requests go to paths below it, such as"
            " POST /v1/chat/completions.",
        ),
    ],
)
def test_a_well_known_path_says_what_is_served_instead(path: str, text: str, method: str) -> None:
    with Running() as gateway:
        answer = gateway.ask(method, path)
    assert (answer.status, answer.json["error"]["code"]) == (404, "not_found")
    assert answer.json["error"]["message"] == f"no such path: {path}. {text}"


@pytest.mark.parametrize("path", ["/v1/chat/", "/v1/chat/completions/"])
def test_a_path_for_conversations_may_end_with_a_slash(path: str) -> None:
    with Running(server=ModelServer()) as gateway:
        answer = gateway.post(path, {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": False})
    assert answer.status == 200


@each_case(
    ("path", "end"),
    [
        ("/v1/chat/completions/chat/completions", "/chat/completions"),
        ("/v1/chat/completions/v1/chat/completions", "/chat/completions"),
        ("/v1/messages/v1/messages", "/messages"),
    ],
)
def test_a_base_url_that_has_the_whole_path_is_recognized(path: str, end: str) -> None:
    with Running() as gateway:
        error = gateway.post(path, {}).json["error"]
    text = f"Did you mean /v1{end}? A base URL ends before {end}, which the client adds."
    assert error["message"] == f"no such path: {path}. {text}"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/v1/chat/completions", "/chat/completions", "/v1/models"])
def test_a_served_path_is_none_of_them_with_any_prefix(path: str) -> None:
    assert find_unserved(path) is None


def test_a_post_to_nearly_a_path_of_conversations_names_it() -> None:
    with Running() as gateway:
        for path, text in [
            ("/v1/chat/completion", "accepts GET, DELETE, not POST. Did you mean /v1/chat/completions?"),
        ]:
            answer = gateway.ask("POST", path)
            assert (answer.status, answer.json["error"]["message"]) == (405, f"{path} {text}")
    assert describe_wrong_method("/v1/models", "PUT", "GET") == "/v1/models accepts GET, not PUT"


def test_a_long_path_takes_linear_time() -> None:
    assert linear(lambda size: describe_unknown_path("/v1/engines" + "/a" * size, ()), 2000)
