"""Parameters that no known server takes are passed on; one that is nearly the name of another is refused."""

import json
from typing import Any

import pytest
from app.params import SERVER_PARAMS

from tests.api.completion_requests import QUESTION, ask
from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running


def warned(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return list(json.loads(answer.headers.get("x-parley-warnings", "[]")))


@each_case("stream", [True, False])
@each_case(
    ("given", "meant"),
    [
        ("temprature", "temperature"),
        ("max_tokns", "max_tokens"),
        ("maxTokens", "max_tokens"),
        ("strem", "stream"),
        ("tool_choise", "tool_choice"),
        ("stream_option", "stream_options"),
    ],
)
def test_a_misspelt_parameter_is_refused_with_the_one_that_is_meant(given: str, meant: str, stream: bool) -> None:
    server = ModelServer()
    body: dict[str, Any] = {given: 1}
    answer = ask(server, **(body if meant == "stream" else {**body, "stream": stream}))
    text = f"{given}: is not a known key; did you mean `{meant}`?"
    assert (answer.status, answer.json["error"]["message"], server.requests) == (400, text, [])


@each_case(("given", "meant"), [("chat_template_kwarg", "chat_template_kwargs"), ("sessionId", "session_id")])
def test_a_parameter_like_one_of_a_model_server_is_passed_on_with_a_warning(given: str, meant: str) -> None:
    server = ModelServer()
    body: dict[str, Any] = {given: 1}
    assert warned(ask(server, **body)) == [f"`{given}` was passed on as it is; did you mean `{meant}`?"]
    assert json.loads(server.requests[0].content)[given] == 1


def test_a_field_of_another_api_is_no_misspelling() -> None:
    assert warned(ask(speed="fast")) == []  # not `seed`


@each_case(
    ("path", "body"),
    [
        ("/v1/chat", {"messages": QUESTION, "generate_cfg": {"temprature": 1}}),
        ("/v1/chat", {"messages": QUESTION, "temprature": 1}),
        ("/v1/chat/completions", {"messages": QUESTION, "temprature": 1}),
        ("/v1/responses", {"input": "Hi", "temprature": 1}),
        ("/v1/messages", {"messages": QUESTION, "max_tokens": 5, "temprature": 1}),
        ("/v1/messages/count_tokens", {"messages": QUESTION, "temprature": 1}),
    ],
)
def test_a_misspelt_parameter_is_refused_by_every_endpoint(path: str, body: dict[str, Any]) -> None:
    with Running() as gateway:
        answer = gateway.post(path, {"model": "m", **body})
    assert answer.status in (400, 422)
    assert "temprature: is not a known key; did you mean `" in answer.json["error"]["message"]


def test_parameters_of_known_servers_are_passed_on_without_a_word() -> None:
    # What needs more than one reply, or is refused for another reason, is none of this test's.
    refused = {"logprobs", "top_logprobs", "audio", "modalities", "prediction", "functions", "function_call", "format"}
    decided = {"metadata", "best_of", "use_beam_search", "num_beams", "prompt_logprobs", "echo"}
    given: dict[str, Any] = dict.fromkeys(SERVER_PARAMS - refused - decided, 1)
    assert [text for text in warned(ask(**given)) if "did you mean" in text] == []


@pytest.mark.parametrize(
    "given", [{"top_k": 3}, {"min_p": 0.1}, {"repetition_penalty": 1.1}, {"x_my_own": 1}, {"top_b": 1}, {"": 1}]
)
def test_what_is_near_to_no_parameter_is_passed_on_without_a_word(given: dict[str, Any]) -> None:
    assert warned(ask(**given)) == []


def test_a_key_beside_the_one_that_it_resembles_is_a_key_of_its_own() -> None:
    assert warned(ask(temprature=1, temperature=1)) == []
    assert warned(ask(modle=1)) == []


def test_null_is_not_passed_on_and_gives_no_warning() -> None:
    assert warned(ask(temprature=None)) == []


def test_only_the_first_of_very_many_unknown_keys_are_compared() -> None:
    given: dict[str, Any] = {"temprature" + "_" * number: 1 for number in range(100)}
    assert len(ask(**given).json["error"]["violations"]) == 20


def test_a_misspelled_key_of_extra_body_gives_a_warning_with_its_path() -> None:
    server = ModelServer()
    extra = {"temprature": 1, "top_k": 3, "chat_template_kwargs": {}}
    with Running(server=server) as gateway:
        body = {"model": "m", "messages": QUESTION, "stream": False, "generate_cfg": {"extra_body": extra}}
        warnings = gateway.post("/v1/chat", body).json["warnings"]
    assert warnings == ["`generate_cfg.extra_body.temprature` was passed on as it is; did you mean `temperature`?"]
    assert json.loads(server.requests[0].content)["temprature"] == 1
