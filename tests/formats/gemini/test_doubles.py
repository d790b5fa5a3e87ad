"""Which bodies have a field in both spellings, of which one is not read."""

from typing import Any

from app.formats.gemini.spelling import canonicalize, has_doubles

from tests.each_case import each_case

Json = dict[str, Any]
PART: Json = {"text": "a"}
BOTH: Json = {"functionCall": {"name": "f"}, "function_call": {"name": "g"}}
USER: Json = {"role": "user", "parts": [PART]}
FUNCTION: Json = {"name": "f", "parameters": {"max_output": 1, "maxOutput": 1}}


@each_case(
    ("body", "doubled"),
    [
        ({"contents": [USER]}, False),
        ({"contents": [USER, {"parts": [{"inline_data": {"mime_type": "a"}}]}]}, False),
        ({"contents": [USER, {"parts": [BOTH]}]}, True),
        ({"contents": [USER, {"parts": [{"functionCall": None, "function_call": {}}]}]}, False),
        ({"contents": {"parts": [BOTH]}}, True),
        ({"contents": [USER], "generationConfig": {"topP": 1, "top_p": 1}}, True),
        ({"contents": [USER], "generationConfig": {"topP": 1}, "generation_config": {"topP": 1}}, True),
        ({"contents": [USER], "tools": [{"functionDeclarations": [FUNCTION]}]}, False),
        ({"contents": [USER], "tools": [{"functionDeclarations": [], "function_declarations": [FUNCTION]}]}, True),
        ({"contents": [USER], "tools": [], "generation_config": {"top_p": 1}}, False),
        ({"contents": [USER], "systemInstruction": USER, "system_instruction": USER}, True),
        ({"contents": [USER], "stopSequences": "a"}, False),
    ],
)
def test_a_field_in_both_spellings_is_found(body: Json, doubled: bool) -> None:
    assert has_doubles(body, canonicalize(body)) is doubled


@each_case(
    "value",
    [
        [USER],
        [{"parts": [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]}],
        [{"parts": [{"functionCall": {"args": {"inline_data": None}}}]}],
        [[USER], USER],
        ["odd", 1, True],
        [],
    ],
)
def test_what_is_in_the_documentations_spelling_stays_the_same_objects(value: list[Any]) -> None:
    read = canonicalize(value)
    assert read == value
    assert all(one is other for one, other in zip(read, value, strict=True))


@each_case(
    ("value", "read"),
    [
        ([{"parts": PART}], [{"parts": [PART]}]),
        ([{"parts": [{"text": "a", "thought": None}]}], [{"parts": [PART]}]),
        ([{"parts": [{"inline_data": {"mime_type": "a"}}]}], [{"parts": [{"inlineData": {"mimeType": "a"}}]}]),
        ([{"tools": [{"stopSequences": "a"}]}], [{"tools": [{"stopSequences": ["a"]}]}]),
        ([[{"top_p": 1}]], [[{"topP": 1}]]),
        ([{"parts": "odd"}], [{"parts": "odd"}]),
        ([{"parts": 1}], [{"parts": 1}]),
    ],
)
def test_what_is_not_is_written_anew(value: Any, read: Any) -> None:
    assert canonicalize(value) == read
