"""The demonstration model as a function: a request in, deltas out."""

import json

import pytest
from app.demo.brain import Called, tokens
from app.demo.fields import Refused
from app.demo.language import detect
from app.demo.phrases import PHRASES
from app.demo.request import read


def tool(name, description="", required=(), **properties):
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
PAINT = tool("image_gen", "AI painting service", ["prompt"], prompt=TEXT)
SUM = tool("calculator", "", ["expression"], expression=TEXT)

PARIS, TOKYO = ("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Tokyo"})


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("What is the capital of France?", "en"),
        ("xyzzy", "en"),
        ("", "en"),
        ("法国的首都是哪里?", "zh"),
        ("フランスの首都はどこですか?", "ja"),
        ("프랑스의 수도는 어디인가요?", "ko"),
        ("Какая столица Франции?", "ru"),
        ("¿Cuál es la capital de Francia?", "es"),
        ("Quelle est la capitale de la France ?", "fr"),
        ("Was ist die Hauptstadt von Frankreich?", "de"),
        ("Qual é a capital da França?", "pt"),
        ("ما هي عاصمة فرنسا؟", "ar"),
        ("What does 你好 mean in English?", "en"),
        ("用Python写一个hello world程序", "zh"),
    ],
)
def test_the_answer_is_in_the_language_of_the_question_and_quotes_it(ask, question, language):
    assert detect(question) == language
    reply = ask(question)
    assert reply.content == PHRASES[language].answer.format(quote=question)
    assert "Parley" in reply.content
    assert "PARLEY_UPSTREAM_URL" in reply.content
    assert reply.done.reason == "stop"


def test_it_thinks_first_and_in_several_deltas(ask):
    kinds = [delta.kind for delta in ask("Hello").deltas]
    assert kinds == sorted(kinds, key=["thought", "said", "done"].index)
    assert kinds.count("thought") > 3
    assert kinds.count("said") > 3


@pytest.mark.parametrize("switch", [{"enable_thinking": False}, {"chat_template_kwargs": {"enable_thinking": False}}])
def test_it_does_not_think_when_told_so(ask, switch):
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
            "巴黎和东京的天气怎么样?",
            [WEATHER, TIME],
            [("get_weather", {"city": "巴黎"}), ("get_weather", {"city": "东京"})],
        ),
        ("在北京现在几点?", [WEATHER, TIME], [("get_time", {"city": "北京"})]),
        ("パリと東京の天気は?", [WEATHER], [("get_weather", {"city": "パリ"}), ("get_weather", {"city": "東京"})]),
        (
            "파리와 도쿄의 날씨 어때?",
            [WEATHER, TIME],
            [("get_weather", {"city": "파리"}), ("get_weather", {"city": "도쿄"})],
        ),
        ("Какая погода в Токио?", [WEATHER, TIME], [("get_weather", {"city": "Токио"})]),
        ("¿Qué tiempo hace en París?", [WEATHER, TIME], [("get_weather", {"city": "París"})]),
        ("Quel temps fait-il à Paris ?", [WEATHER, TIME], [PARIS]),
        ("Wie spät ist es in Berlin?", [WEATHER, TIME], [("get_time", {"city": "Berlin"})]),
        ("Como está o tempo em Lisboa?", [WEATHER, TIME], [("get_weather", {"city": "Lisboa"})]),
        (
            "ما هو الطقس في باريس وطوكيو؟",
            [WEATHER],
            [("get_weather", {"city": "باريس"}), ("get_weather", {"city": "طوكيو"})],
        ),
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
        ("What is (3 + 4) * 12?", [SUM, WEATHER], [("calculator", {"expression": "(3 + 4) * 12"})]),
        ("画一只猫", [PAINT, WEATHER], [("image_gen", {"prompt": "画一只猫"})]),
        ("What is the capital of France?", [WEATHER], [("get_weather", {"city": "France"})]),
        ("Tell me a joke about cats", [WEATHER, TIME], []),
        ("Hello!", [WEATHER], []),
        ("你好", [WEATHER], []),
    ],
)
def test_it_calls_the_functions_that_the_question_is_about(ask, question, tools, calls):
    reply = ask(question, tools=tools)
    assert reply.parsed_calls == calls
    assert reply.done.reason == ("tool_calls" if calls else "stop")


def test_before_a_call_it_says_a_sentence(ask):
    reply = ask("weather in Paris", tools=[WEATHER])
    assert reply.content == "Let me check."
    assert [each.kind for each in reply.deltas if each.kind != "thought"][:3] == ["said"] * 3


def test_a_call_comes_as_its_name_first_and_then_fragments_of_its_arguments(ask):
    called = [each for each in ask("weather in Paris and Rome", tools=[WEATHER]).deltas if isinstance(each, Called)]
    for index in (0, 1):
        first, *rest = [each for each in called if each.index == index]
        assert (first.name, first.arguments) == ("get_weather", "")
        assert len(rest) > 1
        assert all(not each.id and not each.name and each.arguments for each in rest)
    assert len({each.id for each in called if each.id}) == 2


def test_the_callers_choice_of_tools_is_obeyed(ask):
    question = "weather in Paris and Rome"
    named = {"type": "function", "function": {"name": "get_time"}}
    assert ask(question, tools=[WEATHER], tool_choice="none").calls == []
    assert len(ask(question, tools=[WEATHER], parallel_tool_calls=False).calls) == 1
    assert [name for name, _ in ask("weather in Paris", tools=[WEATHER, TIME], tool_choice=named).calls] == ["get_time"]
    assert [name for name, _ in ask("Hello", tools=[TIME, WEATHER], tool_choice="required").calls] == ["get_time"]


def test_results_are_told_in_the_language_of_the_last_question(converse):
    call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    reply = converse(
        [
            {"role": "user", "content": "Wie ist das Wetter in Paris?"},
            {"role": "assistant", "content": None, "tool_calls": [call, {**call, "id": "c2"}]},
            {"role": "tool", "tool_call_id": "c1", "content": "sunny, 21 degrees"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "windy"}]},
        ],
        tools=[WEATHER],
    )
    assert reply.content == (
        "Die Funktion get_weather lieferte: sunny, 21 degrees\nDie Funktion get_weather lieferte: windy"
    )
    assert reply.done.reason == "stop"


def test_media_are_known_by_their_type_alone(ask):
    reply = ask(
        [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "image_url", "image_url": {"url": "https://example.com/cat.jpg?size=1"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        ]
    )
    assert "I see 3 attachment(s), known to me only by media type: image/png, image/jpeg, audio/*." in reply.content


@pytest.mark.parametrize("most", [1, 2, 5, 20])
def test_a_small_limit_cuts_the_answer_and_is_never_passed(ask, most):
    whole, cut = ask("Hello"), ask("Hello", max_tokens=most)
    assert cut.done.reason == "length"
    assert cut.done.completion_tokens == len(cut.deltas) - 1 == most
    assert cut.content
    assert whole.content.startswith(cut.content)


def test_a_limit_can_cut_the_arguments_of_a_call(ask):
    reply = ask("weather in Paris", tools=[WEATHER], enable_thinking=False, max_completion_tokens=5)
    assert reply.done.reason == "length"
    assert reply.calls[0][0] == "get_weather"
    with pytest.raises(ValueError, match="Unterminated|Expecting"):
        json.loads(reply.calls[0][1])


def test_the_answer_ends_before_a_stop_string(ask):
    reply = ask("Hello", stop=["real answer", "demonstration"])
    assert reply.content == "I am Parley's built-in "
    assert reply.done.reason == "stop"


def test_json_is_answered_when_json_is_asked_for(ask):
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "level": {"type": "integer", "minimum": 3}},
        "required": ["city", "level"],
    }
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert json.loads(ask("In Paris", response_format=form).content) == {"city": "Paris", "level": 3}
    assert "Paris" in json.loads(ask("In Paris", response_format={"type": "json_object"}).content)["answer"]


def test_equal_requests_get_equal_replies_and_others_get_other_ids(ask):
    first, again, other = (ask(text, tools=[WEATHER]) for text in ("in Rome?", "in Rome?", "in Oslo?"))
    assert first.deltas == again.deltas
    ids = [next(each.id for each in reply.deltas if isinstance(each, Called)) for reply in (first, other)]
    assert ids[0] != ids[1]


@pytest.mark.parametrize("text", ["", " ", "a b  c\n\nd ", "你好世界,hello 世界", "\n\n", "naïve 🙂 ok"])
def test_tokens_joined_are_the_text(text):
    assert "".join(tokens(text)) == text


USER = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", None),
        (b"\xff\xfe", None),
        (b"[]", None),
        (b'{"model":"m","messages":[{"role":"user","content":"x"}],"temperature":NaN}', None),
        (b'{"seed":' + b"9" * 500 + b"}", None),
        (b"[" * 100_000, None),
        ({}, "model"),
        ({"model": 3, "messages": USER}, "model"),
        ({"model": "m"}, "messages"),
        ({"model": "m", "messages": []}, "messages"),
        ({"model": "m", "messages": "hi"}, "messages"),
        ({"model": "m", "messages": ["hi"]}, "messages[0]"),
        ({"model": "m", "messages": [{"role": "robot", "content": "hi"}]}, "messages[0].role"),
        ({"model": "m", "messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"model": "m", "messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0].content[0].type"),
        ({"model": "m", "messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        ({"model": "m", "messages": USER, "tools": [{"type": "function"}]}, "tools[0].function.name"),
        ({"model": "m", "messages": USER, "tools": [{"type": "web"}]}, "tools[0].type"),
        ({"model": "m", "messages": USER, "tool_choice": "required"}, "tool_choice"),
        ({"model": "m", "messages": USER, "tool_choice": "sometimes"}, "tool_choice"),
        ({"model": "m", "messages": USER, "tool_choice": {"function": {"name": "x"}}}, "tool_choice"),
        ({"model": "m", "messages": USER, "max_tokens": 0}, "max_tokens"),
        ({"model": "m", "messages": USER, "max_tokens": True}, "max_tokens"),
        ({"model": "m", "messages": USER, "stop": [1]}, "stop"),
        ({"model": "m", "messages": USER, "n": 2}, "n"),
        ({"model": "m", "messages": USER, "stream": "yes"}, "stream"),
        ({"model": "m", "messages": USER, "response_format": {"type": "xml"}}, "response_format.type"),
    ],
)
def test_a_malformed_request_is_refused_under_the_name_of_the_field(body, param):
    with pytest.raises(Refused) as refused:
        read(body if isinstance(body, bytes) else json.dumps(body).encode())
    assert refused.value.param == param
