"""The body of a request, and what is refused, ignored or passed on."""

import json
from typing import Any

from app.chat.messages import Message, Text
from app.errors import BadRequest, InvalidInput
from app.formats.body import ParsedRequest, RejectedRequest
from app.formats.gemini import GEMINI, GEMINI_ARRAY, GEMINI_CUT
from app.formats.gemini.body import GenerateTarget, parse_count_body, parse_generate_body
from app.formats.request_limits import RequestLimits

from tests.each_case import each_case

Json = dict[str, Any]
LIMITS = RequestLimits(max_messages=3, max_content_items=4, max_functions=2, max_nesting=10)
HI: Json = {"role": "user", "parts": [{"text": "Hi"}]}


def parse(body: Any, **target: Any) -> ParsedRequest | RejectedRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse_generate_body(raw, LIMITS, target=GenerateTarget("m", **target))


def accept(**fields: Any) -> ParsedRequest:
    found = parse({"contents": [HI], **fields})
    assert isinstance(found, ParsedRequest), found
    return found


def refuse(body: Any) -> list[str]:
    found = parse(body)
    assert isinstance(found, RejectedRequest)
    assert isinstance(found.error, InvalidInput)
    assert found.write_error is GEMINI.error
    return [one.path for one in found.error.violations]


def test_the_path_says_how_the_reply_comes() -> None:
    for target, stream, reply_format in (
        ({}, False, GEMINI),
        ({"stream": True}, True, GEMINI),
        ({"stream": True, "array": True}, True, GEMINI_ARRAY),
        ({"stream": True, "array": True, "skips_errors": True}, True, GEMINI_ARRAY),
        ({"stream": True, "skips_errors": True}, True, GEMINI_CUT),
    ):
        found = parse({"contents": [HI]}, **target)
        assert isinstance(found, ParsedRequest)
        assert (found.settings.stream, found.request.stream, found.reply_format) == (stream, stream, reply_format)
        assert found.settings.model == "m"


@each_case(
    ("config", "params"),
    [
        (
            {"temperature": 0, "topP": 1, "topK": 3.0, "maxOutputTokens": 5.0},
            {"temperature": 0, "top_p": 1, "top_k": 3, "max_tokens": 5},
        ),
        ({"stopSequences": "END", "seed": 1}, {"stop": ["END"], "seed": 1}),
        ({"stopSequences": []}, {}),
        ({"thinkingConfig": {"thinkingBudget": 0}}, {"enable_thinking": False}),
        ({"thinkingConfig": {"thinkingBudget": -1}}, {}),
        ({"thinkingConfig": {"thinkingBudget": 5}}, {"enable_thinking": True, "thinking_budget": 5}),
        ({"thinkingConfig": {"thinkingLevel": "LOW"}}, {"reasoning_effort": "low"}),
        (
            {"thinkingConfig": {"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED", "thinkingBudget": 0}},
            {"enable_thinking": False},
        ),
        ({"responseMimeType": "text/plain"}, {}),
        ({"responseMimeType": "Application/JSON"}, {"response_format": {"type": "json_object"}}),
        ({"min_p": 0.1, "enable_thinking": True}, {"min_p": 0.1, "enable_thinking": True}),
        ({"chat_template_kwargs": {"a": 1}}, {"extra_body": {"chat_template_kwargs": {"a": 1}}}),
        ({"candidateCount": 1, "responseModalities": ["text"]}, {}),
    ],
)
def test_the_configuration_becomes_parameters(config: Json, params: Json) -> None:
    found = accept(generationConfig=config)
    assert dict(found.request.params) == params
    assert not found.warnings


def test_parameters_may_be_at_the_top_and_lose_against_the_configuration() -> None:
    found = accept(min_p=0.2, temperature=1, chat_template_kwargs={"a": 1}, generation_config={"temperature": 0.5})
    assert found.request.params["temperature"] == 0.5
    assert found.request.params["min_p"] == 0.2
    assert not found.warnings


@each_case(
    ("config", "schema"),
    [
        ({"responseSchema": {"type": "STRING"}}, {"type": "string"}),
        ({"responseJsonSchema": {"type": "STRING"}}, {"type": "STRING"}),
        ({"_responseJsonSchema": {"type": "object"}, "responseSchema": {}}, {"type": "object"}),
    ],
)
def test_a_schema_is_that_of_the_reply(config: Json, schema: Json) -> None:
    found = accept(generationConfig={"responseMimeType": "application/json", **config})
    wanted = {"type": "json_schema", "json_schema": {"name": "response", "schema": schema}}
    assert found.request.params["response_format"] == wanted


@each_case(
    ("system", "texts"),
    [
        ("Be brief.", ["Be brief."]),
        ({"role": "x", "parts": [{"text": "a"}, {"text": ""}, {"text": "b"}]}, ["a", "b"]),
        ({"parts": {"text": "a"}}, ["a"]),
        ({"text": "a"}, ["a"]),
        ([{"text": "a"}], ["a"]),
        ({"parts": []}, None),
        ("", None),
    ],
)
def test_the_system_instruction_is_the_first_message(system: Any, texts: list[str] | None) -> None:
    first = accept(systemInstruction=system).request.messages[0]
    if texts is None:
        assert first.role == "user"
        return
    assert first == Message("system", tuple(map(Text, texts)), path="systemInstruction")


@each_case(
    ("fields", "paths"),
    [
        ({"cachedContent": "cachedContents/x"}, ["cachedContent"]),
        ({"generationConfig": {"candidateCount": 2}}, ["generationConfig.candidateCount"]),
        ({"generationConfig": {"responseLogprobs": True, "logprobs": 2}}, ["generationConfig.responseLogprobs"]),
        ({"generationConfig": {"logprobs": 2}}, ["generationConfig.logprobs"]),
        ({"generationConfig": {"responseMimeType": "text/x.enum"}}, ["generationConfig.responseMimeType"]),
        ({"generationConfig": {"responseSchema": {}}}, ["generationConfig.responseSchema"]),
        (
            {"generation_config": {"thinking_config": {"thinkingBudget": 1, "thinkingLevel": "LOW"}}},
            ["generation_config.thinking_config"],
        ),
        (
            {"generationConfig": {"topK": 1.5, "temperature": "hot"}},
            ["generationConfig.temperature", "generationConfig.topK"],
        ),
        ({"generationConfig": {"min_p": 5}}, ["generationConfig.min_p"]),
        ({"min_p": 5}, ["min_p"]),
        ({"generationConfig": 5}, ["generationConfig"]),
        ({"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, ["toolConfig.functionCallingConfig.mode"]),
        (
            {"tools": [{"codeExecution": {}}], "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
            ["tools[0].codeExecution"],
        ),
        (
            {"tools": [{"googleSearch": {}}, {"codeExecution": {}}]},
            ["tools[0].googleSearch", "tools[1].codeExecution"],
        ),
        ({"chat_template_kwargs": 3}, ["chat_template_kwargs"]),
        (
            {"systemInstruction": {"parts": [{"functionCall": {"name": "f"}}]}},
            ["systemInstruction.parts[0].functionCall"],
        ),
        ({"systemInstruction": 3}, ["systemInstruction"]),
        ({"systemInstruction": [{"functionCall": {"name": "f"}}]}, ["systemInstruction[0].functionCall"]),
        ({"systemInstruction": [None]}, ["systemInstruction[0]"]),
        ({"system_instruction": {"text": 3}}, ["system_instruction.text"]),
        ({"cache": "sometimes"}, ["cache"]),
        ({"contents": [HI] * 4}, ["contents"]),
        ({"contents": [{"parts": [{"text": "x"}] * 5}]}, ["contents"]),
        ({"contents": None}, ["contents"]),
        ({"contents": "Hi"}, ["contents"]),
        ({"tools": [{"functionDeclarations": [{"name": name} for name in "abc"]}]}, ["tools"]),
        ({"labels": {"a": 10**400}}, ["labels.a"]),
    ],
)
def test_what_is_refused_is_named_by_its_path(fields: Json, paths: list[str]) -> None:
    assert refuse({"contents": [HI], **fields}) == paths


def test_all_violations_are_told_at_once() -> None:
    body = {"contents": [{"role": "x"}], "cachedContent": "x", "generationConfig": {"seed": "x"}}
    assert refuse(body) == ["contents[0].role", "generationConfig.seed", "cachedContent"]


@each_case(
    ("fields", "places"),
    [
        ({"generationConfig": {"responseModalities": ["TEXT", "AUDIO"]}}, ["generationConfig.responseModalities"]),
        ({"generationConfig": {"speechConfig": {"a": 1}}}, ["generationConfig.speechConfig"]),
        ({"generationConfig": {"odd": 1}}, ["generationConfig.odd"]),
        ({"generationConfig": {"thinkingConfig": {"odd": 1}}}, ["generationConfig.thinkingConfig.odd"]),
        ({"odd": 1}, ["odd"]),
        ({"safetySettings": [], "labels": {}, "store": True, "service_tier": "flex", "model": "x"}, []),
    ],
)
def test_what_is_ignored_is_named_if_it_changes_the_reply(fields: Json, places: list[str]) -> None:
    assert [text.partition(" ")[0] for text in accept(**fields).warnings] == places


def test_thoughts_are_shown_only_on_demand() -> None:
    assert accept().options.hide_thinking
    assert not accept(generationConfig={"thinkingConfig": {"includeThoughts": True}}).options.hide_thinking


def test_the_cache_is_chosen_as_elsewhere() -> None:
    control = accept(cache="off").settings.cache
    assert control is not None
    assert control.mode == "off"


def test_a_search_is_refused_later_unless_the_gateway_runs_it() -> None:
    request = accept(tools=[{"google_search": {"excludeDomains": ["a.example"]}}, {"urlContext": {}}]).request
    assert request.source is not None and request.server_tools is not None
    hosted = request.server_tools.hosted
    assert hosted is not None and hosted.unserved == request.source.violations and not hosted.violations
    assert [one.path for one in hosted.unserved] == ["tools[0].google_search", "tools[1].urlContext"]
    asks = {ask.kind: ask for ask in hosted.asks}
    assert (asks["web_search"].path, asks["web_search"].blocked_domains) == ("tools[0].google_search", ("a.example",))
    assert asks["web_fetch"].path == "tools[1].urlContext"


def test_a_body_that_is_not_json_is_refused() -> None:
    found = parse(b"{")
    assert isinstance(found, RejectedRequest)
    assert isinstance(found.error, BadRequest)


def test_a_number_that_json_does_not_have_is_named_in_any_body() -> None:
    found = parse(b'[{"a": NaN}]')
    assert isinstance(found, RejectedRequest)
    assert isinstance(found.error, InvalidInput)
    assert [one.path for one in found.error.violations] == ["[0].a"]


CALL: Json = {"role": "model", "parts": [{"functionCall": {"name": "f"}}]}


def count(body: Json) -> ParsedRequest | RejectedRequest:
    return parse_count_body(json.dumps(body).encode(), LIMITS, target=GenerateTarget("m"))


def test_a_whole_request_is_counted_or_its_contents_alone() -> None:
    for body in (
        {"contents": [HI]},
        {"generateContentRequest": {"contents": [HI]}},
        {"generate_content_request": {"contents": HI}},
    ):
        found = count(body)
        assert isinstance(found, ParsedRequest)
        assert [one.parts for one in found.request.messages] == [(Text("Hi"),)]
    assert isinstance(count({"contents": [HI, CALL]}), ParsedRequest)


def test_what_is_wrong_in_an_inner_request_has_its_whole_path() -> None:
    found = count({"generateContentRequest": {"contents": []}})
    assert isinstance(found, RejectedRequest)
    assert isinstance(found.error, InvalidInput)
    assert [one.path for one in found.error.violations] == ["generateContentRequest.contents"]
