"""The demo model as a function: a request in, events out."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from app.chat.events import Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.demo.model import ANSWER, split_tokens

from tests.demo.demo_replies import Ask, Converse

Tool = dict[str, Any]


def tool(name: str, description: str = "", required: Sequence[str] = (), **properties: object) -> Tool:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TEXT = {"type": "string"}
WEATHER = tool(
    "get_weather",
    "Current weather of a city",
    ["city"],
    city=TEXT,
    unit={"type": "string", "enum": ["celsius", "fahrenheit"]},
)
TIME = tool("get_time", "Current local time", ["city"], city=TEXT)
ADD = tool("add", "", ["a", "b"], a={"type": "number"}, b={"type": "integer"})
DISTANCE = tool("distance", "", ["origin", "destination"], origin=TEXT, destination=TEXT)
PAINT = tool("image_gen", "Paint or draw a picture, such as a cat", ["prompt"], prompt=TEXT)

CALL = {"type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
PARIS, TOKYO = ("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Tokyo"})
ROME, NEW_YORK = ("get_weather", {"city": "Rome"}), ("get_weather", {"city": "New York"})


@pytest.mark.parametrize("question", ["What is the capital of France?", "", "法国的首都是哪里?", "ما هي عاصمة فرنسا؟"])
def test_the_answer_quotes_the_question_and_says_how_to_connect_a_model(ask: Ask, question: str) -> None:
    reply = ask(question)
    assert reply.content == ANSWER.format(quote=question)
    assert "PARLEY_UPSTREAM_URL" in reply.content
    assert reply.finish.reason == "stop"


def test_it_thinks_first_and_in_several_deltas(ask: Ask) -> None:
    kinds = [type(event) for event in ask("Hello").deltas]
    order: list[type] = [ReasoningDelta, TextDelta, Finish]
    assert kinds == sorted(kinds, key=order.index)
    assert kinds.count(ReasoningDelta) > 3
    assert kinds.count(TextDelta) > 3


@pytest.mark.parametrize("switch", [{"enable_thinking": False}, {"chat_template_kwargs": {"enable_thinking": False}}])
def test_it_does_not_reason_where_thinking_is_disabled(ask: Ask, switch: dict[str, Any]) -> None:
    reply = ask("Hello", **switch)
    assert reply.thought == ""
    assert reply.content


@pytest.mark.parametrize(
    ("question", "tools", "calls"),
    [
        ("What is the weather in Paris and in Tokyo?", [WEATHER, TIME], [PARIS, TOKYO]),
        (
            "weather in paris and tokyo",
            [WEATHER],
            [("get_weather", {"city": "paris"}), ("get_weather", {"city": "tokyo"})],
        ),
        ("What is the weather in New York?", [WEATHER], [("get_weather", {"city": "New York"})]),
        ("What is the weather in Paris, France?", [WEATHER], [("get_weather", {"city": "Paris, France"})]),
        (
            "What is the weather in Paris, and what time is it there?",
            [WEATHER, TIME],
            [PARIS, ("get_time", {"city": "Paris"})],
        ),
        (
            "What is the weather in Paris in fahrenheit?",
            [WEATHER],
            [("get_weather", {"city": "Paris", "unit": "fahrenheit"})],
        ),
        (
            "How far is the distance between Paris and Tokyo?",
            [DISTANCE],
            [("distance", {"origin": "Paris", "destination": "Tokyo"})],
        ),
        ("Add 3 and 4", [ADD, WEATHER], [("add", {"a": 3, "b": 4})]),
        ("Paint a cat", [PAINT], [("image_gen", {"prompt": "Paint a cat"})]),
        ("weather in Paris, Rome and New York", [WEATHER], [PARIS, ROME, NEW_YORK]),
        ("Какая погода в Токио?", [WEATHER], [("get_weather", {"city": "Токио"})]),
        ("What is the capital of France?", [WEATHER], [("get_weather", {"city": "France"})]),
        ("Tell me a joke about cats", [WEATHER, TIME], []),
        ("Hello!", [WEATHER], []),
    ],
)
def test_it_calls_the_functions_that_the_question_is_about(
    ask: Ask, question: str, tools: list[Tool], calls: list[tuple[str, Any]]
) -> None:
    reply = ask(question, tools=tools)
    assert reply.parsed_calls == calls
    assert reply.finish.reason == ("tool_calls" if calls else "stop")


def test_before_a_call_that_was_not_demanded_it_writes_a_sentence(ask: Ask) -> None:
    reply = ask("weather in Paris", tools=[WEATHER])
    assert reply.content == "Let me check."
    assert [type(event) for event in reply.deltas if not isinstance(event, ReasoningDelta)][:3] == [TextDelta] * 3


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_before_a_demanded_call_it_writes_nothing(ask: Ask, choice: object) -> None:
    reply = ask("weather in Paris", tools=[WEATHER, TIME], tool_choice=choice)
    assert (reply.content, reply.parsed_calls, reply.finish.reason) == ("", [PARIS], "tool_calls")


def test_a_call_comes_as_its_name_first_and_then_fragments_of_its_arguments(ask: Ask) -> None:
    called = [
        each for each in ask("weather in Paris and Rome", tools=[WEATHER]).deltas if isinstance(each, ToolCallDelta)
    ]
    for index in (0, 1):
        first, *rest = [each for each in called if each.index == index]
        assert (first.name, first.arguments) == ("get_weather", "")
        assert len(rest) > 1
        assert all(not each.id and not each.name and each.arguments for each in rest)
    assert len({each.id for each in called if each.id}) == 2


def test_the_callers_choice_of_tools_is_obeyed(ask: Ask) -> None:
    question = "weather in Paris and Rome"
    named = {"type": "function", "function": {"name": "get_time"}}
    assert ask(question, tools=[WEATHER], tool_choice="none").calls == []
    assert len(ask(question, tools=[WEATHER], parallel_tool_calls=False).calls) == 1
    assert [name for name, _ in ask("weather in Paris", tools=[WEATHER, TIME], tool_choice=named).calls] == ["get_time"]
    assert [name for name, _ in ask("Hello", tools=[TIME, WEATHER], tool_choice="required").calls] == ["get_time"]


RESULTS: list[dict[str, Any]] = [
    {"role": "user", "content": "What is the weather in Paris?"},
    {"role": "assistant", "content": None, "tool_calls": [{**CALL, "id": "c1"}, {**CALL, "id": "c2"}]},
    {"role": "tool", "tool_call_id": "c1", "content": "sunny, 21 degrees"},
    {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "windy"}]},
]
REPORT = "The function get_weather returned: sunny, 21 degrees\nThe function get_weather returned: windy"


def test_results_are_reported(converse: Converse) -> None:
    reply = converse(RESULTS, tools=[WEATHER])
    assert (reply.content, reply.calls, reply.finish.reason) == (REPORT, [], "stop")


def test_what_a_question_wants_one_after_the_other_is_called_in_as_many_turns(converse: Converse) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Weather in Paris, then the time in Rome and then add 2 to 3"}
    ]
    called = []
    while calls := (reply := converse(messages, tools=[WEATHER, TIME, ADD])).parsed_calls:
        assert reply.thought
        called += calls
        messages += [{"role": "assistant", "tool_calls": [{**CALL, "id": "c"}]}, {**RESULTS[2], "tool_call_id": "c"}]
    assert called == [PARIS, ("get_time", {"city": "Rome"}), ("add", {"a": 2, "b": 3})]
    assert reply.content == "The function get_weather returned: sunny, 21 degrees"
    again = converse([*messages, {"role": "user", "content": "Weather in Tokyo"}], tools=[WEATHER, TIME, ADD])
    assert again.parsed_calls == [TOKYO]


def test_a_call_that_is_demanded_after_results_is_of_a_function_not_called_yet_and_carries_them(
    converse: Converse,
) -> None:
    final = tool("final_answer", "Provides a final answer", ["answer"], answer={})
    reply = converse(RESULTS, tools=[WEATHER, final], tool_choice="required")
    assert (reply.content, reply.parsed_calls) == ("", [("final_answer", {"answer": REPORT})])


def test_calls_and_results_that_an_agent_writes_as_text_are_read(converse: Converse) -> None:
    final = tool("final_answer", "Provides a final answer", ["answer"], answer={})
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "What is the weather in Paris?"},
        {"role": "assistant", "content": "Calling tools:\n[{'function': {'name': 'get_weather', 'arguments': {}}}]"},
        {"role": "user", "content": "Observation:\nThe weather is sunny"},
    ]
    ((name, arguments),) = converse(history, tools=[WEATHER, final], tool_choice="required").parsed_calls
    assert name == "final_answer"
    assert "The weather is sunny" in arguments["answer"]


def test_media_are_known_by_their_type_alone(ask: Ask) -> None:
    reply = ask(
        [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "image_url", "image_url": {"url": "https://example.com/cat.jpg"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        ]
    )
    assert "I see 3 attachment(s), known to me only by media type: image/png, image/*, audio/*." in reply.content


@pytest.mark.parametrize("most", [1, 2, 5, 40])
def test_a_small_limit_cuts_the_reply_and_is_never_passed(ask: Ask, most: int) -> None:
    whole, cut = ask("Hello"), ask("Hello", max_tokens=most)
    assert cut.finish.reason == "length"
    assert (cut.finish.usage or {})["completion_tokens"] == len(cut.deltas) - 1 == most
    assert cut.deltas[:-1] == whole.deltas[:most]


def test_a_limit_can_cut_the_arguments_of_a_call(ask: Ask) -> None:
    reply = ask("weather in Paris", tools=[WEATHER], enable_thinking=False, max_completion_tokens=5)
    assert reply.finish.reason == "length"
    assert reply.calls[0][0] == "get_weather"
    with pytest.raises(ValueError, match="Unterminated|Expecting"):
        json.loads(reply.calls[0][1])


def test_the_answer_ends_before_a_stop_string(ask: Ask) -> None:
    reply = ask("Hello", stop=["real answer", "demonstration"])
    assert reply.content == "I am Parley's built-in "
    assert reply.finish.reason == "stop"


def test_the_reply_is_json_when_json_is_requested(ask: Ask) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "level": {"type": "integer", "minimum": 3}},
        "required": ["city", "level"],
    }
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert json.loads(ask("In Paris", response_format=form).content) == {"city": "Paris", "level": 3}
    assert "Paris" in json.loads(ask("In Paris", response_format={"type": "json_object"}).content)["answer"]


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 18}},
    "required": ["name", "age"],
}
ANNA = {"name": "Anna", "age": 30}


@pytest.mark.parametrize("form", [{}, {"response_format": {"type": "json_object"}}])
def test_a_json_schema_in_the_prompt_is_followed(converse: Converse, form: dict[str, Any]) -> None:
    system = {
        "role": "system",
        "content": f"Parse into json that matches this json_schema:\n{json.dumps(PERSON)}\nNow.",
    }
    reply = converse([system, {"role": "user", "content": "I met Anna, who is 30 years old"}], **form)
    assert json.loads(reply.content) == ANNA


def test_a_code_block_that_the_prompt_asks_for_is_written_unless_the_body_asks_for_json(converse: Converse) -> None:
    messages = [
        {"role": "system", "content": f"json_schema: {json.dumps(PERSON)}"},
        {"role": "user", "content": "Anna is 30. Return the correct JSON response within a ```json codeblock."},
    ]
    assert converse(messages).content == f"```json\n{json.dumps(ANNA)}\n```"
    assert json.loads(converse(messages, response_format={"type": "json_object"}).content) == ANNA


FIELDS = (
    "Respond with the corresponding output fields, starting with the field `[[ ## name ## ]]`, then `[[ ## age ## ]]` "
    "(must be formatted as a valid Python int), then `[[ ## mood ## ]]` (must be formatted as a valid Python "
    "Literal['glad', 'sad']), and then ending with the marker for `[[ ## completed ## ]]`."
)
JSON_FIELDS = (
    "Respond with a JSON object in the following order of fields: `name`, then `age` (must be formatted as a valid "
    "Python int), then `pets` (must be formatted as a valid Python list[str])."
)


def test_the_sections_that_dspy_asks_for_are_written(ask: Ask) -> None:
    reply = ask(f"[[ ## question ## ]]\nI met Anna, who is 30 and sad\n\n{FIELDS}")
    sections = "[[ ## name ## ]]\nAnna\n\n[[ ## age ## ]]\n30\n\n[[ ## mood ## ]]\nsad\n\n[[ ## completed ## ]]"
    assert reply.content == sections


def test_the_json_that_dspy_asks_for_has_its_fields_in_order(ask: Ask) -> None:
    reply = ask(f"I met Anna, who is 30. {JSON_FIELDS}", response_format={"type": "json_object"})
    value = json.loads(reply.content)
    assert list(value) == ["name", "age", "pets"]
    assert (value["name"], value["age"]) == ("Anna", 30)
    assert all(isinstance(pet, str) for pet in value["pets"])


def test_equal_requests_get_equal_replies_and_others_get_other_ids(ask: Ask) -> None:
    first, again, other = (ask(text, tools=[WEATHER]) for text in ("in Rome?", "in Rome?", "in Oslo?"))
    assert first.deltas == again.deltas
    ids = [next(each.id for each in reply.deltas if isinstance(each, ToolCallDelta)) for reply in (first, other)]
    assert ids[0] != ids[1]


@pytest.mark.parametrize("text", ["", " ", "a b  c\n\nd ", "你好世界" * 9, "\n\n", "naïve 🙂 ok"])
def test_tokens_joined_are_the_text(text: str) -> None:
    assert "".join(split_tokens(text)) == text


def test_what_claude_code_adds_to_a_question_is_no_part_of_it(ask: Ask, converse: Converse) -> None:
    reminder = "<system-reminder>\nUse <b>get_weather</b> in Rome.\n</system-reminder>"
    parts = [{"type": "text", "text": reminder}, {"type": "text", "text": "Hello, what can you do?"}]
    assert "You asked: “Hello, what can you do?”." in ask(parts).content
    result = {"role": "tool", "tool_call_id": "c", "content": f"sunny\n\n{reminder}"}
    assert converse([{"role": "user", "content": "Hello"}, result]).content.endswith("returned: sunny")


def test_a_message_of_a_reminder_alone_is_no_question(converse: Converse) -> None:
    reminder = {"role": "user", "content": "<system-reminder>It is 20:05.</system-reminder>"}
    question = {"role": "user", "content": "Hello, what can you do?"}
    assert "You asked: “Hello, what can you do?”." in converse([question, reminder]).content
    result = {"role": "tool", "tool_call_id": "c", "content": "sunny"}
    assert converse([question, result, reminder]).content.endswith("returned: sunny")
    assert converse([reminder]).content


def test_reminders_that_do_not_end_are_text(ask: Ask) -> None:
    assert "<system-reminder>" in ask("<system-reminder>" * 100_000).content
