"""What a caller reads of a request that was refused: plain words, and what to write instead."""

import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pytest
from app.api.convert import Conversion
from app.cache.policy import MODES
from app.config.settings import Settings
from app.errors import BadRequest, InvalidInput, ParleyError, Violation
from app.formats import FORMATS
from app.formats.base import Options
from app.formats.body import ParsedRequest, RejectedRequest
from app.formats.chat_body import ChatRequestBody, parse_chat_body
from app.formats.request_limits import RequestLimits
from app.validation.violations import MAX_LISTED, json_path, known_keys, to_violations
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from tests.each_case import each_case

LIMITS = RequestLimits(max_messages=1000, max_content_items=1000, max_functions=100, max_nesting=100)
JARGON = re.compile(
    r"Input |input (should|is)|\bNone\b|"
    r"\bTrue\b|\bFalse\b|[Dd]ictionar|\bdict\b|valid (string|integer|number|list)|pydantic|"
    r"\bModel\b|instance of|\bint\b|\bfloat\b|\bstr\b|after validation|nan\b|Value error|literal|validat|\bexpected\b"
)
OF_SERVER = "is not a known key; what only the model server knows goes into generate_cfg.extra_body"
MESSAGE = '{"role": "user", "content": "…"}'
CACHE_MODES = "must be one of on, off, refresh, only"
BESIDE = "is not a known key; put it beside generate_cfg: stream"
IMGE = [{"role": "user", "content": [{"imge": "x"}]}]
MESSAGES = [{"role": "user", "content": "Hi"}]


def meant(name: str) -> str:
    return f"is not a known key; did you mean `{name}`?"


def refused(body: Any) -> dict[str | None, str]:
    return {one.path: one.message for one in violations(json.dumps(body).encode())}


def rejection(raw: bytes) -> ParleyError:
    """The error of a body that is rejected."""
    parsed = parse_chat_body(raw, LIMITS)
    assert isinstance(parsed, RejectedRequest)
    return parsed.error


def violations(raw: bytes) -> Sequence[Violation]:
    error = rejection(raw)
    assert isinstance(error, InvalidInput)
    return error.violations


@each_case(
    ("more", "path", "message"),
    [
        ({"generate_cfg": {"temprature": 1}}, "generate_cfg.temprature", meant("temperature")),
        ({"generate_cfg": {"maxTokens": 1}}, "generate_cfg.maxTokens", meant("max_tokens")),
        ({"generate_cfg": {"qqqqq": 1}}, "generate_cfg.qqqqq", OF_SERVER),
        ({"temperature": 1}, "temperature", "is not a known key; put it in generate_cfg: generate_cfg.temperature"),
        ({"ttl_seconds": 1}, "ttl_seconds", "is not a known key; put it in cache: cache.ttl_seconds"),
        ({"generate_cfg": {"stream": True}}, "generate_cfg.stream", BESIDE),
        ({"mesages": []}, "mesages", meant("messages")),
        ({"cache": {"mod": "on"}}, "cache.mod", meant("mode")),
        ({"cache": {"mode": "onn"}}, "cache.mode", f'{CACHE_MODES}, not "onn"; did you mean `on`?'),
        ({"cache": "no-store"}, "cache", f'{CACHE_MODES}, not "no-store"; did you mean `off`?'),
        ({"generate_cfg": 5}, "generate_cfg", "must be an object, not a number"),
        ({"generate_cfg": {"temperature": "hot"}}, "generate_cfg.temperature", "must be a number, not a string"),
        ({"generate_cfg": {"temperature": -1}}, "generate_cfg.temperature", "must be at least 0, not -1"),
        ({"generate_cfg": {"top_p": 1.5}}, "generate_cfg.top_p", "must be at most 1, not 1.5"),
        ({"generate_cfg": {"top_k": 1.5}}, "generate_cfg.top_k", "must be a whole number, not 1.5"),
        ({"generate_cfg": {"stop": 5}}, "generate_cfg.stop", "must be a string or a list, not a number"),
        ({"model": ""}, "model", "must not be empty"),
        ({"model": "x" * 513}, "model", "must have at most 512 characters"),
        ({"stream": "yes"}, "stream", "must be true or false, not a string"),
        ({"messages": None}, "messages", 'must be a list, not null: send [{"role": "user", "content": "…"}]'),
        ({"messages": []}, "messages", "must not be empty"),
        ({"messages": ["Hi"]}, "messages[0]", f"must be an object, not a string: write {MESSAGE}"),
        ({"messages": IMGE}, "messages[0].content[0].imge", meant("image")),
        ({"metadata": {"a": 1}}, "metadata.a", "must be a string, not a number"),
    ],
)  # fmt: skip
def test_a_violation_says_what_is_wrong_and_what_to_write(more: dict[str, Any], path: str, message: str) -> None:
    assert refused({"messages": MESSAGES, **more})[path] == message


def test_the_error_of_a_body_that_is_not_an_object_says_so() -> None:
    assert rejection(b"[1]").message == "the request body must be a JSON object, not a list"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"model": "m",\n "messages": [],}', "trailing comma at line 2, column 17"),
        (b"{", "it ends inside an object at line 1, column 1"),
        (b"{'a': 1}", "a key must be a string in double quotes at line 1, column 2"),
        (b'{"a": nul', "it ends where a value must follow at line 1, column 9"),
        (b'{"a": "\xff"}', "the text is not UTF-8 at line 1, column 8"),
        (b'{"a": ' + b"9" * 5000 + b"}", "a number has too many digits at line 1, column 4308"),
    ],
)
def test_the_error_of_a_body_that_is_not_json_names_the_problem_and_its_position(raw: bytes, message: str) -> None:
    error = rejection(raw)
    assert isinstance(error, BadRequest)
    assert error.message == f"the request body is not valid JSON: {message}"


@pytest.mark.parametrize("raw", [b"", b" \n"])
def test_the_error_of_an_empty_body_says_what_to_send(raw: bytes) -> None:
    error = rejection(raw)
    assert isinstance(error, BadRequest)
    assert error.message == "the request body is empty: send a JSON object"


HUGE = int("9" * 400)
NUMBERS = [
    *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "n"),
    *("max_tokens", "max_completion_tokens", "thinking_budget", "max_input_tokens", "seed", "max_retries"),
    "request_timeout",
]


@each_case("value", ["9" * 400, "-" + "9" * 400, "1e400", "NaN", "Infinity", "-Infinity"])
@each_case(
    "place",
    [
        '"cache":{"ttl_seconds":%s}',
        *(f'"generate_cfg":{{"{name}":%s}}' for name in NUMBERS),
        '"generate_cfg":{"logit_bias":{"5":%s}}',
        '"generate_cfg":{"extra_body":{"a":[%s]}}',
        '"generate_cfg":{"response_format":{"a":%s}}',
        '"functions":[{"name":"f","parameters":{"minimum":%s}}]',
        '"messages":[{"role":"user","content":"Hi","extra":{"a":%s}}]',
    ],
)
def test_a_number_that_no_other_program_can_read_is_refused_at_the_edge(place: str, value: str) -> None:
    body = '{"messages":[{"role":"user","content":"Hi"}],' if '"messages"' not in place else "{"
    found = violations(f"{body}{place % value}}}".encode())
    assert [one for one in found if JARGON.search(one.message)] == []


@pytest.mark.parametrize("field", ["ttl_seconds"])
def test_ten_years_are_a_valid_duration(field: str) -> None:
    body = {
        "messages": MESSAGES,
        "cache": {field: 315360000},
        "generate_cfg": {"seed": 2**63 - 1, "request_timeout": 9},
    }
    parsed = parse_chat_body(json.dumps(body).encode(), LIMITS)
    assert isinstance(parsed, ParsedRequest) and parsed.settings.cache is not None


ODD: list[Any] = [None, True, 3, -1, 1.5, HUGE, float("inf"), float("nan"), "", "x", "x" * 600, [], [1], {}, {"a": {}}]


def _models(annotation: Any, seen: dict[str, type[BaseModel]]) -> None:
    stack = [annotation]
    while stack:
        one = stack.pop()
        stack += getattr(one, "__args__", ())
        stack += [getattr(one, "__origin__", None)] if hasattr(one, "__metadata__") else []
        if isinstance(one, type) and issubclass(one, BaseModel) and one.__qualname__ + one.__module__ not in seen:
            seen[one.__qualname__ + one.__module__] = one
            stack += [field.annotation for field in one.model_fields.values()]


def schemas() -> list[type[BaseModel]]:
    """Every model whose errors callers or operators can read."""
    seen: dict[str, type[BaseModel]] = {}
    for one in (ChatRequestBody, Conversion, Settings, *(row.schema for row in FORMATS.values())):
        _models(one, seen)
    return list(seen.values())


@pytest.mark.many_cases
@each_case("model", schemas(), ids=lambda model: f"{model.__module__}.{model.__qualname__}")
def test_no_message_names_python_or_the_library_that_found_the_error(model: type[BaseModel]) -> None:
    values = [*ODD, *({field.alias or name: odd} for name, field in model.model_fields.items() for odd in ODD)]
    for value in values:
        try:
            TypeAdapter(model).validate_python(value)
        except ValidationError as error:
            for one in to_violations(error, value, schema=model):
                assert not JARGON.search(one.message), (value, one)


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_names_python_or_the_library_in_an_error_of_a_message(name: str) -> None:
    keys = ("role", "content", "name", "type", "source", "models_usage", "function_call", "tool_calls", "extra", "id")
    for odd in ODD:
        for item in (odd, *({"role": "user", "content": "Hi", "type": "TextMessage", key: odd} for key in keys)):
            for one in FORMATS[name].parse([item], Options()).violations:
                assert not JARGON.search(one.message), (item, one)


def test_the_known_keys_of_any_place_are_found() -> None:
    class Inner(BaseModel):
        deep: int

    class Outer(BaseModel):
        many: dict[str, list[Inner]] | None = None
        one: Annotated[Inner, Field()] | str

    assert known_keys(Outer, []) == ["many", "one"]
    assert known_keys(Outer, ["many", "x", 0]) == known_keys(Outer, ["one"]) == ["deep"]
    assert known_keys(Outer, ["one", "deep", "no"]) == []


def test_an_unknown_type_of_validation_error_is_reported_in_plain_words() -> None:
    class Odd(BaseModel):
        model_config = ConfigDict(extra="forbid")

        at: Annotated[int, Field(multiple_of=7)]
        mode: Literal["a"]

    with pytest.raises(ValidationError) as caught:
        Odd.model_validate({"at": 6, "mode": "b"})
    found = {one.path: one.message for one in to_violations(caught.value, {"at": 6, "mode": "b"})}
    assert found == {"at": "is not valid", "mode": 'must be a, not "b"'}


def test_the_modes_of_the_cache_are_the_same_in_body_and_header() -> None:
    assert (
        refused({"messages": MESSAGES, "cache": {"mode": 1}})["cache.mode"]
        == f"must be one of {', '.join(MODES)}, not a number"
    )


def test_of_very_many_errors_only_the_number_is_reported() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(list[int]).validate_python(["x"] * (MAX_LISTED + 1))
    (found,) = to_violations(caught.value, [], "here")
    assert (found.path, found.message) == ("here", f"has {MAX_LISTED + 1} errors; at most {MAX_LISTED} can be listed")


def test_choices_that_are_no_texts_are_written_as_json() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Literal[True, None]).validate_python("x")
    (found,) = to_violations(caught.value, "x", "here")
    assert "true" in found.message and "null" in found.message and "None" not in found.message


@pytest.mark.parametrize(("given", "expected"), [({}, ", not an object"), ({1}, "")])
def test_what_was_given_is_named_where_json_has_a_name_for_it(given: object, expected: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(int).validate_python(given)
    (found,) = to_violations(caught.value, given, "here")
    assert found.message.endswith(f"integer{expected}") or found.message.endswith(f"number{expected}"), found.message


def test_a_path_names_only_the_beginning_of_a_long_key() -> None:
    assert json_path(["a", 0, "b c"]) == 'a[0]["b c"]'
    assert json_path(["x" * 1000], "body") == f'body["{"x" * 200}\\u2026"]'


def test_a_flag_in_quotes_is_written_without_them() -> None:
    for given, is_certain in (("True", True), ("maybe", False)):
        with pytest.raises(ValidationError) as caught:
            TypeAdapter(bool).validate_python(given, strict=True)
        (found,) = to_violations(caught.value, given, "here")
        assert found.message.endswith(": write true, without quotes") is is_certain


class _Call(BaseModel):
    role: str = ""
    function: dict[str, str]


@each_case(
    ("body", "path", "end"),
    [
        (
            {"messages": MESSAGES, "generate_cfg": {"temperature": " 0.5"}},
            "generate_cfg.temperature",
            "write 0.5, without quotes",
        ),
        ({"messages": MESSAGES, "stream": "True"}, "stream", "write true, without quotes"),
        ({"messages": MESSAGES, "functions": {"name": "f"}}, "functions", "put it into a list"),
        ({"messages": [{"type": "function_call_output"}]}, "messages[0].role", "POST /v1/responses"),
        ({"messages": [{"type": "human", "content": "Hi"}]}, "messages[0].role", "with the value `user`"),
        ({"prompt": "Hi"}, "messages", "not `prompt`"),
    ],
)
def test_a_value_in_a_wrong_form_is_refused_with_the_right_one(body: Any, path: str, end: str) -> None:
    message = refused(body)[path]
    assert message.endswith(end), message


def test_a_type_that_is_no_role_is_not_renamed() -> None:
    message = refused({"messages": [{"type": "message", "content": "Hi"}]})["messages[0].role"]
    assert message.startswith("is required")
    assert "instead of `type`" not in message


def test_a_missing_key_of_what_was_no_object_is_only_named() -> None:
    adapter: TypeAdapter[_Call] = TypeAdapter(Annotated[_Call, BeforeValidator(lambda _: {})])
    with pytest.raises(ValidationError) as caught:
        adapter.validate_python("f")
    assert [one.message for one in to_violations(caught.value, "f", schema=_Call)] == ["is required"]


def test_a_call_without_its_function_shows_how_it_is_written() -> None:
    with pytest.raises(ValidationError) as caught:
        _Call.model_validate({"name": "f"})
    (found,) = to_violations(caught.value, {"name": "f"}, schema=_Call)
    assert '"function": {"name": "…", "arguments": "{}"}' in found.message
