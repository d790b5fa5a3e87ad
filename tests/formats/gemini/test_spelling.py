"""Both spellings of a field mean the same, and an error names the caller's own."""

from typing import Any

from app.errors import Violation
from app.formats.gemini.spelling import canonicalize, spell, spell_all, to_snake

from tests.each_case import each_case

CASES: list[tuple[Any, Any]] = [
    ({"system_instruction": "x"}, {"systemInstruction": "x"}),
    (
        {"generation_config": {"thinkingConfig": {"include_thoughts": True}}},
        {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
    ),
    ({"parts": [{"inlineData": {"mime_type": "a/b"}}]}, {"parts": [{"inlineData": {"mimeType": "a/b"}}]}),
    ({"contents": None, "tools": [{"x": None}]}, {"tools": [{}]}),
    ({"contents": {"parts": {"text": "x"}}}, {"contents": [{"parts": [{"text": "x"}]}]}),
    ({"stop_sequences": "END", "contents": "x"}, {"stopSequences": ["END"], "contents": "x"}),
    ({"topP": 0.1, "top_p": 0.2}, {"topP": 0.1}),
    ({"topP": None, "top_p": 0.2}, {"topP": 0.2}),
    ({"_responseJsonSchema": {"top_p": None}}, {"responseJsonSchema": {"top_p": None}}),
    (
        {"args": {"mime_type": None}, "response": {"file_uri": 1}},
        {"args": {"mime_type": None}, "response": {"file_uri": 1}},
    ),
    ({"min_p": 0.1}, {"min_p": 0.1}),
    ([1, "x"], [1, "x"]),
]


@each_case(("given", "read"), CASES)
def test_a_body_is_read_in_one_spelling(given: Any, read: Any) -> None:
    assert canonicalize(given) == read


BODY: dict[str, Any] = {
    "contents": [{"parts": [{"inline_data": {"mime_type": "x"}}]}],
    "generation_config": {"topP": "x"},
    "tools": {"function_declarations": {"name": ""}},
}
PATHS = [
    ("contents[0].parts[0].inlineData.mimeType", "contents[0].parts[0].inline_data.mime_type"),
    ("contents[0].parts[0].inlineData.data", "contents[0].parts[0].inline_data.data"),
    ("contents[3].parts[0].text", "contents[3].parts[0].text"),
    ("generationConfig.topP", "generation_config.topP"),
    ("tools[0].functionDeclarations[0].name", "tools.function_declarations.name"),
    ("systemInstruction", "systemInstruction"),
    ("contents]", "contents]"),
    ("", ""),
]


@each_case(("path", "spelt"), PATHS)
def test_a_path_is_spelt_as_the_caller_has_written_it(path: str, spelt: str) -> None:
    assert spell(path, BODY) == spelt


def test_violations_keep_their_messages() -> None:
    assert spell_all([Violation("generationConfig", "is wrong")], BODY) == [Violation("generation_config", "is wrong")]


def test_a_name_has_a_snake_case() -> None:
    assert to_snake("functionResponse") == "function_response"
