"""What users of other gateways reported of the Gemini API, tried here. Each test names the report."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.formats.gemini.golden_cases import join_parts, read_events
from tests.in_process_gateway import HELLO, Answer, AnsweringGateway, streamed

Json = dict[str, Any]
HI: Json = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
STREAM = "/v1beta/models/m:streamGenerateContent"
THOUGHT = b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"Hm."}}]}\n\n'
SIGNED = (
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function",'
    b'"function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2lnbmF0dXJl"}}}]}}]}\n\n'
)
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class _Gateway(AnsweringGateway):
    def stream(self, path: str, body: Json, *pieces: bytes) -> Answer:
        return self.exchange(path, body, streamed(*(pieces or (HELLO, END))))

    def send(self, body: Json) -> Json:
        """What the model server is sent."""
        answer = self.stream("/v1beta/models/m:generateContent", body)
        assert answer.status == 200, answer.body
        sent: Json = self.sent
        return sent

    def refuse(self, body: Json) -> list[str]:
        error = self.stream("/v1beta/models/m:generateContent", body).json["error"]
        assert error["code"] == 400
        return [row["field"] for row in error["details"][1]["fieldViolations"]]


@pytest.fixture(scope="module")
def gateway() -> Iterator[_Gateway]:
    with _Gateway() as gateway:
        yield gateway


def test_the_body_has_the_shape_of_the_native_api(gateway: _Gateway) -> None:
    """BerriAI/litellm issue 12671."""
    sent = gateway.send(
        {
            "contents": {"parts": [{"text": "Hi"}]},
            "generationConfig": {"temperature": 0.5},
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "safetySettings": {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"},
        }
    )
    assert [one["content"] for one in sent["messages"]] == ["Be brief.", "Hi"]
    assert sent["temperature"] == 0.5


def test_schemas_reach_a_server_of_another_api_as_json_schemas(gateway: _Gateway) -> None:
    """BerriAI/litellm issue 12191."""
    schema = {"type": "OBJECT", "properties": {"n": {"type": "INTEGER", "nullable": True}}}
    sent = gateway.send({**HI, "tools": [{"functionDeclarations": [{"name": "f", "parameters": schema}]}]})
    wanted = {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}}
    assert sent["tools"][0]["function"]["parameters"] == wanted


def test_thoughts_are_streamed_on_demand(gateway: _Gateway) -> None:
    """BerriAI/litellm issue 15779."""
    body = {**HI, "generationConfig": {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 4096}}}
    chunks = gateway.stream(STREAM, body, THOUGHT, END).json
    assert join_parts(chunks) == [{"text": "Hm.", "thought": True}]


def test_without_alt_a_stream_is_json(gateway: _Gateway) -> None:
    """BerriAI/litellm pull request 29019."""
    answer = gateway.stream(STREAM, HI)
    assert answer.headers["content-type"] == "application/json"
    assert join_parts(answer.json) == [{"text": "Hello"}]


def test_events_are_whole_however_the_servers_bytes_are_cut(gateway: _Gateway) -> None:
    """BerriAI/litellm issue 30224."""
    data = THOUGHT + SIGNED + END
    for size in (1, 7, 64):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        chunks = read_events(gateway.stream(f"{STREAM}?alt=sse", HI, *pieces).body)
        assert [*join_parts(chunks)[0]] == ["functionCall", "thoughtSignature"]


def test_a_signature_comes_back_to_the_server(gateway: _Gateway) -> None:
    """mnfst/llm-gateway pull request 1395."""
    [part] = join_parts(read_events(gateway.stream(f"{STREAM}?alt=sse", HI, SIGNED, END).body))
    result = {"functionResponse": {"name": "f", "response": {"result": "x"}}}
    history = [*HI["contents"], {"role": "model", "parts": [part]}, {"role": "user", "parts": [result]}]
    sent = gateway.send({"contents": history})
    assert sent["messages"][1]["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "c2lnbmF0dXJl"}}


def test_a_turn_of_the_model_without_parts_is_no_error(gateway: _Gateway) -> None:
    """home-assistant/core issue 157162."""
    for empty in ({"role": "model"}, {"role": "model", "parts": None}, {"role": "model", "parts": []}):
        sent = gateway.send({"contents": [*HI["contents"], empty, *HI["contents"]]})
        assert [one["role"] for one in sent["messages"]] == ["user", "user"]


def test_fewer_results_than_calls_are_warned_of_at_the_call(gateway: _Gateway) -> None:
    """google-gemini/gemini-cli issue 16543."""
    calls: list[Json] = [{"functionCall": {"name": name, "args": {}}} for name in ("f", "g")]
    result = {"functionResponse": {"name": "f", "response": {}}}
    contents = [*HI["contents"], {"role": "model", "parts": calls}, {"role": "user", "parts": [result]}]
    answer = gateway.stream("/v1beta/models/m:generateContent", {"contents": contents})
    assert answer.json["parley"]["warnings"][0].startswith("contents[1].parts[1].functionCall: ")


def test_a_field_in_the_wrong_place_is_a_warning(gateway: _Gateway) -> None:
    """GewoonJaap/gemini-cli-openai issue 37."""
    answer = gateway.stream("/v1beta/models/m:generateContent", {**HI, "generationConfig": {"safetySettings": [1]}})
    assert answer.json["parley"]["warnings"][0].startswith("generationConfig.safetySettings ")


def test_a_search_beside_functions_is_refused_at_its_place(gateway: _Gateway) -> None:
    """router-for-me/CLIProxyAPI issue 1077."""
    tool = {"functionDeclarations": [{"name": "f"}], "google_search": {}}
    assert gateway.refuse({**HI, "tools": [tool]}) == ["tools[0].google_search"]


def test_both_versions_of_the_path_are_served(gateway: _Gateway) -> None:
    """QuantumNous/new-api pull request 205."""
    for version in ("v1", "v1beta"):
        assert gateway.stream(f"/{version}/models/m:generateContent", HI).status == 200
