"""What the input of `POST /v1/responses` brings besides messages: tools, settings, and the wish for a summary."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from app.formats.seal import Seal, read_seal

from tests.each_case import each_case
from tests.in_process_gateway import SERVER, Answer, ModelServer, Running, streamed

Json = dict[str, Any]
HI: Json = {"type": "message", "role": "user", "content": "Hi"}
OWN: Json = {"type": "function", "name": "own"}
EXEC: Json = {"type": "custom", "name": "exec"}
ADDED: Json = {
    "type": "additional_tools",
    "role": "developer",
    "tools": [{"type": "namespace", "name": "functions", "tools": [EXEC, {"type": "function", "name": "wait"}]}],
}
SEARCH: Json = {"type": "tool_search", "execution": "client"}
SEARCHED: list[Json] = [
    {"type": "tool_search_call", "execution": "client", "call_id": "s", "arguments": {"query": "mail"}},
    {
        "type": "tool_search_output",
        "execution": "client",
        "call_id": "s",
        "status": "completed",
        "tools": [{"type": "namespace", "name": "mail", "tools": [{"type": "function", "name": "send"}]}],
    },
]
TEXT = [{"content": "Hello"}]


def frames(*deltas: Json, finish: str = "stop") -> bytes:
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}]
    return b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


def calling(name: str, arguments: str, id_: str = "c1") -> Json:
    function = {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": 0, "id": id_, "type": "function", "function": function}]}


class Gateway:
    def __init__(self) -> None:
        self.reply: list[Json] = TEXT
        self.finish = "stop"
        self.server = ModelServer(lambda _: streamed(frames(*self.reply, finish=self.finish)))
        self.running = Running({**SERVER, "cache": {"url": "memory:"}}, self.server)

    def create(self, **body: Any) -> Answer:
        return self.running.post("/v1/responses", {"model": "m", **body})

    @property
    def sent(self) -> Json:
        body: Json = json.loads(self.server.requests[-1].content)
        return body

    @property
    def offered(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.sent.get("tools", ())]


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    gateway = Gateway()
    with gateway.running:
        yield gateway


def warnings_of(answer: Answer) -> list[str]:
    found: list[str] = answer.json.get("parley", {}).get("warnings", [])
    return [warning for warning in found if "usage" not in warning]


def test_tools_of_items_are_offered_behind_those_of_the_request(gateway: Gateway) -> None:
    answer = gateway.create(input=[ADDED, HI, *SEARCHED, ADDED, HI], tools=[OWN])
    assert answer.status == 200 and not warnings_of(answer)
    assert gateway.offered == ["own", "functions__exec", "functions__wait", "mail__send"]


def test_calls_of_tools_of_items_are_written_as_the_caller_knows_them(gateway: Gateway) -> None:
    for name, arguments, expected in (
        ("functions__exec", '{"input": "ls"}', {"type": "custom_tool_call", "namespace": "functions", "input": "ls"}),
        ("mail__send", '{"to": 1}', {"type": "function_call", "namespace": "mail", "arguments": '{"to": 1}'}),
    ):
        gateway.reply = [calling(name, arguments)]
        for stream in (False, True):
            answer = gateway.create(input=[ADDED, HI, *SEARCHED], stream=stream)
            [item] = (answer.frames[-1]["response"] if stream else answer.json)["output"]
            assert expected.items() <= item.items()
            assert item["name"] == name.partition("__")[2]


def test_a_stored_response_brings_its_tools_and_settings(gateway: Gateway) -> None:
    update = {"type": "configuration_update", "text": {"format": {"type": "json_object"}}}
    gateway.reply = [calling("functions__exec", '{"input": "ls"}')]
    first = gateway.create(input=[ADDED, update, HI]).json
    gateway.reply = TEXT
    output = {"type": "custom_tool_call_output", "call_id": "c1", "output": "a.txt"}
    second = gateway.create(input=[output], previous_response_id=first["id"], tools=[OWN]).json
    assert gateway.offered == ["own", "functions__exec", "functions__wait"]
    assert gateway.sent["response_format"] == {"type": "json_object"}
    gateway.create(input="And?", previous_response_id=second["id"])
    assert gateway.offered == ["functions__exec", "functions__wait"]


def test_tools_of_the_request_replace_stored_ones_and_those_of_its_items_replace_both(gateway: Gateway) -> None:
    def added(description: str) -> Json:
        return {"type": "additional_tools", "tools": [OWN | {"description": description}]}

    first = gateway.create(input=[added("old"), added("stored"), HI]).json
    for body, expected in (
        ({}, "stored"),
        ({"tools": [OWN | {"description": "of the request"}]}, "of the request"),
        ({"tools": [OWN | {"description": "of the request"}], "input": [added("new"), HI]}, "new"),
    ):
        assert gateway.create(**{"input": "Hi", "previous_response_id": first["id"], **body}).status == 200
        assert [tool["function"]["description"] for tool in gateway.sent["tools"]] == [expected]


def test_a_reference_to_an_item_with_tools_brings_them_too(gateway: Gateway) -> None:
    first = gateway.create(input=[ADDED, HI]).json
    items = gateway.running.get(f"/v1/responses/{first['id']}/input_items?order=asc").json["data"]
    gateway.create(input=[{"type": "item_reference", "id": items[0]["id"]}, HI])
    assert gateway.offered == ["functions__exec", "functions__wait"]


def test_a_choice_counts_the_tools_of_items(gateway: Gateway) -> None:
    choice: Json = {"type": "custom", "name": "exec", "namespace": "functions"}
    gateway.create(input=[ADDED, HI], tool_choice=choice)
    assert gateway.sent["tool_choice"] == {"type": "function", "function": {"name": "functions__exec"}}
    gateway.create(input=[ADDED, HI], tool_choice="required", parallel_tool_calls=False)
    assert (gateway.sent["tool_choice"], gateway.sent["parallel_tool_calls"]) == ("required", False)
    gateway.create(input=[ADDED, HI], tools=[OWN], tool_choice={"type": "allowed_tools", "tools": [choice]})
    assert gateway.offered == ["functions__exec"]


def test_tools_of_items_are_counted(gateway: Gateway) -> None:
    counts = [
        gateway.running.post("/v1/responses/input_tokens", {"model": "m", "input": input_}).json["input_tokens"]
        for input_ in ([HI], [ADDED, HI], [ADDED, HI, ADDED])
    ]
    assert counts[0] < counts[1] == counts[2]


@each_case(
    ("item", "path"),
    [
        ({"type": "additional_tools"}, "input[1].tools"),
        ({"type": "additional_tools", "tools": {}}, "input[1].tools"),
        ({"type": "additional_tools", "tools": [5]}, "input[1].tools[0]"),
        ({"type": "additional_tools", "tools": [{"type": "shell"}]}, "input[1].tools[0].type"),
        (
            {
                "type": "additional_tools",
                "tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function"}]}],
            },
            "input[1].tools[0].tools[0].name",
        ),
        ({"type": "additional_tools", "tools": [OWN, OWN]}, "input[1].tools[1].name"),
        ({"type": "configuration_update", "reasoning": 5}, "input[1].reasoning"),
        ({"type": "configuration_update", "reasoning": {"effort": 5}}, "input[1].reasoning.effort"),
        ({"type": "configuration_update", "text": {"format": {"type": "xml"}}}, "input[1].text.format.type"),
        ({"type": "configuration_update", "text": {"format": {"type": "json_schema"}}}, "input[1].text.format"),
        ({"type": "compaction_trigger"}, "input[1]"),
    ],
)
def test_what_an_item_brings_is_refused_at_its_place(item: Json, path: str) -> None:
    with Gateway().running as running:
        answer = running.post("/v1/responses", {"model": "m", "instructions": "Be kind.", "input": [HI, item, HI]})
    assert (answer.status, answer.json["error"]["param"]) == (400, path)


def test_a_search_for_tools_is_the_clients(gateway: Gateway) -> None:
    """The calls of a search, with an object of arguments, and what the model gets of its result."""
    gateway.reply = [{"reasoning_content": "Hm."}, calling("tool_search", '{"query": "mail"}')]
    for stream in (False, True):
        answer = gateway.create(input=[HI], tools=[SEARCH], stream=stream)
        response = answer.frames[-1]["response"] if stream else answer.json
        item = response["output"][-1]
        assert item.pop("id").startswith("tsc_")
        assert item == {
            "type": "tool_search_call",
            "status": "completed",
            "call_id": "c1",
            "execution": "client",
            "arguments": {"query": "mail"},
        }
        assert gateway.offered == ["tool_search"]
    added = [frame["item"] for frame in answer.frames if frame["type"] == "response.output_item.added"]
    assert (added[1]["status"], added[1]["arguments"]) == ("in_progress", {})
    gateway.reply = TEXT
    found = {**SEARCHED[1], "call_id": "c1"}
    gateway.create(input=[found], previous_response_id=response["id"], tools=[SEARCH])
    assert gateway.offered == ["tool_search", "mail__send"]
    assert gateway.sent["messages"][1]["tool_calls"][0]["function"]["name"] == "tool_search"
    assert gateway.sent["messages"][2]["content"] == '{"tools": [{"name": "mail__send"}]}'


@each_case("arguments", ['{"query": ', "[1]", "5"])
def test_arguments_of_a_search_that_are_no_object_are_written_as_they_are(arguments: str) -> None:
    gateway = Gateway()
    gateway.reply = [calling("tool_search", arguments)]
    with gateway.running:
        assert gateway.create(input=[HI], tools=[SEARCH]).json["output"][0]["arguments"] == arguments


def test_a_function_of_the_caller_with_that_name_is_a_function(gateway: Gateway) -> None:
    gateway.reply = [calling("tool_search", "{}")]
    answer = gateway.create(input=[HI], tools=[{"type": "function", "name": "tool_search"}])
    assert answer.json["output"][0]["type"] == "function_call"


def test_a_long_joined_name_is_restored_and_the_same_in_the_history(gateway: Gateway) -> None:
    namespace, name = "mcp__" + "n" * 40, "t" * 40
    tools = [{"type": "namespace", "name": namespace, "tools": [{"type": "function", "name": name}]}]
    gateway.create(input=[HI], tools=tools)
    [short] = gateway.offered
    assert len(short) == 64
    gateway.reply = [calling(short, "{}")]
    response = gateway.create(input=[HI], tools=tools).json
    assert (response["output"][0]["name"], response["output"][0]["namespace"]) == (name, namespace)
    output = {"type": "function_call_output", "call_id": "c1", "output": "x"}
    gateway.create(input=[output], previous_response_id=response["id"], tools=tools)
    assert gateway.sent["messages"][1]["tool_calls"][0]["function"]["name"] == short


def test_the_last_update_of_each_setting_counts(gateway: Gateway) -> None:
    schema = {"type": "json_schema", "name": "x", "schema": {"type": "object"}}
    updates = [
        {"type": "configuration_update", "reasoning": {"effort": "low"}},
        {"type": "configuration_update", "text": {"format": schema}},
        {"type": "configuration_update", "reasoning": {"effort": "high"}, "id": "cu_1"},
    ]
    gateway.reply = [{"content": "{}"}]
    answer = gateway.create(input=[*updates, HI], reasoning={"effort": "medium"})
    assert gateway.sent["reasoning_effort"] == "high"
    assert gateway.sent["response_format"]["json_schema"] == {"name": "x", "schema": {"type": "object"}}
    assert answer.json["reasoning"]["effort"] == "medium" and not warnings_of(answer)
    back = {"type": "configuration_update", "reasoning": {"effort": None}, "text": {"format": {"type": "text"}}}
    gateway.create(input=[*updates, back, HI], reasoning={"effort": "medium"})
    assert gateway.sent.keys().isdisjoint({"reasoning_effort", "response_format"})


TRIGGER: Json = {"type": "compaction_trigger"}


def test_a_trigger_makes_a_summary_from_which_the_conversation_goes_on(gateway: Gateway) -> None:
    gateway.reply = [{"reasoning_content": "Hm."}, {"content": "They "}, {"content": "met.\n"}]
    format_ = {"format": {"type": "json_object"}}
    for stream in (False, True):
        answer = gateway.create(input=[ADDED, HI, TRIGGER], stream=stream, text=format_)
        response = answer.frames[-1]["response"] if stream else answer.json
        assert [item["type"] for item in response["output"]] == ["reasoning", "compaction"]
        assert read_seal(response["output"][1]["encrypted_content"]) == Seal("They met.")
        assert "summary" in gateway.sent["messages"][-1]["content"]
        assert (gateway.sent["tool_choice"], gateway.sent.get("response_format")) == ("none", None)
    kinds = [frame["type"] for frame in answer.frames]
    assert kinds.count("response.output_item.done") == kinds.count("response.output_item.added") == 2
    assert [frame["sequence_number"] for frame in answer.frames] == list(range(len(answer.frames)))
    assert not any("output_text" in kind for kind in kinds)
    gateway.reply = TEXT
    gateway.create(input="And?", previous_response_id=response["id"])
    assert [one["content"] for one in gateway.sent["messages"]] == [
        "Summary of the conversation so far:\n\nThey met.",
        "And?",
    ]
    assert gateway.offered == ["functions__exec", "functions__wait"]
    gateway.create(input=[HI, response["output"][1], HI])
    assert len(gateway.sent["messages"]) == 3


def test_the_texts_of_a_summary_are_one_item(gateway: Gateway) -> None:
    gateway.reply = [{"content": "A."}, {"reasoning_content": "Hm."}, {"content": "B."}]
    output = gateway.create(input=[HI, TRIGGER]).json["output"]
    assert [item["type"] for item in output].count("compaction") == 1
    assert read_seal(output[-1]["encrypted_content"]) == Seal("A.\n\nB.")


@each_case(
    ("reply", "cause"),
    [
        ([{"reasoning_content": "Hm."}, {"content": " \n"}], "it is empty"),
        ([calling("own", "{}")], "it is a call of a tool"),
        ([{"content": "Let me look."}, calling("own", "{}")], "it is a call of a tool"),
        ([{"refusal": "No."}], "it is a refusal"),
    ],
)
def test_a_reply_that_is_no_summary_fails_and_may_be_asked_for_again(reply: list[Json], cause: str) -> None:
    gateway = Gateway()
    with gateway.running:
        gateway.reply = reply
        whole = gateway.create(input=[HI, TRIGGER])
        events = gateway.create(input=[HI, TRIGGER], stream=True).frames
    assert (whole.status, whole.headers["x-should-retry"]) == (502, "true")
    assert cause in whole.json["error"]["message"]
    error = events[-1]["response"]["error"]
    assert (events[-1]["type"], error["code"], error["retryable"]) == ("response.failed", "server_error", True)
    assert not any(event.get("item", {}).get("type") == "compaction" for event in events)


def test_a_summary_that_the_limit_cuts_is_incomplete(gateway: Gateway) -> None:
    gateway.reply, gateway.finish = [{"content": "They m"}], "length"
    response = gateway.create(input=[HI, TRIGGER]).json
    assert (response["status"], response["output"][0]["type"]) == ("incomplete", "compaction")


def test_there_must_be_something_to_summarize(gateway: Gateway) -> None:
    answer = gateway.create(input=[TRIGGER])
    assert (answer.status, answer.json["error"]["param"]) == (400, "input")
    first = gateway.create(input=[HI]).json
    assert gateway.create(input=[TRIGGER], previous_response_id=first["id"]).status == 200


def test_a_foreign_summary_of_a_stored_response_does_not_replace_its_conversation(gateway: Gateway) -> None:
    first = gateway.create(input=[HI, {"type": "compaction", "encrypted_content": "gAAA"}]).json
    gateway.create(input="And?", previous_response_id=first["id"])
    assert [one["content"] for one in gateway.sent["messages"]] == ["Hi", "Hello", "And?"]


def test_what_is_ignored_or_refused_is_named_as_the_caller_names_it(gateway: Gateway) -> None:
    answer = gateway.create(input="Hi", max_tokens=5, messages=[HI], functions=[OWN])
    assert [warning.partition(" ")[0] for warning in warnings_of(answer)] == ["max_tokens", "functions", "messages"]
    assert warnings_of(answer)[0] == "max_tokens was read as max_output_tokens, its name here"
    answer = gateway.create(input="Hi", tools=[{"type": "web_search"}, OWN, 5, OWN])
    assert [one["param"] for one in answer.json["error"]["violations"]] == ["tools[2]", "tools[3].name"]


@each_case(
    ("body", "param"),
    [
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"top_k": "x"}, "top_k"),
        ({"input": [HI, {"role": "tool", "content": "x"}]}, "input[1].role"),
    ],
)
def test_an_error_names_the_place_and_has_the_status_that_it_is_sent_with(body: Json, param: str) -> None:
    with Gateway().running as running:
        for more in ({}, {"stream": True}):
            answer = running.post("/v1/responses", {"model": "m", "input": "Hi", **body, **more})
            error = answer.json["error"]
            assert (answer.status, error["status"], error["param"]) == (400, 400, param)


def test_an_unknown_reference_is_not_found(gateway: Gateway) -> None:
    for id_ in ("msg_9", "msg_" + "0" * 32 + "_0"):
        for path in ("/v1/responses", "/v1/responses/input_tokens"):
            answer = gateway.running.post(
                path, {"model": "m", "input": [HI, {"type": "item_reference", "id": id_}, HI]}
            )
            error = answer.json["error"]
            assert (answer.status, error["status"], error["code"], error["param"]) == (
                404,
                404,
                "not_found",
                "input[1].id",
            )
