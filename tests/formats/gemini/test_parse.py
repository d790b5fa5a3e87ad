"""Contents become messages."""

from typing import Any

from app.chat.messages import Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.formats.base import Options
from app.formats.gemini.parse import ParsedContents, parse_contents, parse_messages
from app.formats.gemini.signatures import write_signature
from app.formats.gemini.spelling import canonicalize
from app.formats.seal import Seal

from tests.each_case import each_case

Json = dict[str, Any]
OWN = {"google": {"thought_signature": "czE="}}
OTHER = {"google": {"thought_signature": "czI="}}


def parse(*contents: Json) -> ParsedContents:
    return parse_contents(contents, canonicalize(list(contents)), "contents")


def user(*parts: Json) -> Json:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Json) -> Json:
    return {"role": "model", "parts": list(parts)}


def text(words: str, **more: Any) -> Json:
    return {"text": words, **more}


def call(name: str, id_: str | None = None, **more: Any) -> Json:
    return {"functionCall": {"name": name, **({"id": id_} if id_ else {})}, **more}


def result(name: str, id_: str | None = None, **response: Any) -> Json:
    return {"functionResponse": {"name": name, **({"id": id_} if id_ else {}), "response": response}}


def turn(*parts: Json) -> Message:
    """The first message of the model's turn."""
    found = parse(user(text("Hi")), model(*parts)).messages
    return found[1]


def test_neighbours_of_one_role_are_one_turn() -> None:
    found = parse(user(text("a")), user(text("b")), model(text("c")), model(text("d")), {"parts": [text("e")]})
    assert [(one.role, [part.text for part in one.parts if isinstance(part, Text)]) for one in found.messages] == [
        ("user", ["a", "b"]),
        ("assistant", ["cd"]),
        ("user", ["e"]),
    ]
    assert [one.path for one in found.messages] == ["contents[0]", "contents[2]", "contents[4]"]


def test_results_come_before_what_the_user_says() -> None:
    found = parse(model(call("f", "c1")), user(text("Thanks"), result("f", "c1", output="x"), text("And?")))
    assert [one.role for one in found.messages] == ["assistant", "tool", "user"]
    assert found.messages[2].parts == (Text("Thanks"), Text("And?"))


@each_case(
    ("response", "words"),
    [
        ({"result": "x"}, "x"),
        ({"output": "x"}, "x"),
        ({"result": [1]}, '{"result":[1]}'),
        ({"error": "x"}, '{"error":"x"}'),
        ({"result": "x", "more": 1}, '{"result":"x","more":1}'),
        ({}, "{}"),
        ("x", "x"),
        ([1, "é"], '[1,"é"]'),
        (None, ""),
    ],
)
def test_the_text_of_a_result(response: Any, words: str) -> None:
    part = {"functionResponse": {"name": "f", "id": "c1", "response": response}}
    message = parse(model(call("f", "c1")), user(part)).messages[1]
    assert message.parts == (ToolResult((Text(words),) if words else (), "f", "c1"),)


def test_media_of_a_result_are_part_of_it() -> None:
    part = result("f", "c1", result="see")
    part["functionResponse"]["parts"] = [{"inline_data": {"mime_type": "image/png", "data": "AAAA"}}]
    [given] = parse(model(call("f", "c1")), user(part)).messages[1].parts
    assert isinstance(given, ToolResult)
    assert [one.kind for one in given.content] == ["text", "media"]


def test_a_result_without_an_id_answers_the_first_open_call_with_its_name() -> None:
    calls = model(call("f", "a"), call("g", "b"), call("f", "c"))
    found = parse(calls, user(result("f"), result("f"), result("g"))).messages
    assert [part.id for one in found[1:] for part in one.parts if isinstance(part, ToolResult)] == ["a", "c", "b"]


def test_a_call_without_an_id_gets_one_and_its_result_the_same() -> None:
    found = parse(model(call("f"), call("f")), user(result("f", "own"), result("f"))).messages
    ids = [part.id for part in found[0].parts if isinstance(part, ToolCall)]
    assert len(set(ids)) == 2
    assert [part.id for one in found[1:] for part in one.parts if isinstance(part, ToolResult)] == ids


def test_a_result_answers_no_call_that_has_one_or_is_of_another_function() -> None:
    found = parse(model(call("f", "c1")), user(result("g"), result("f", "c1"), result("f", "c1"), result("f", "c9")))
    answers = [part for one in found.messages for part in one.parts if isinstance(part, ToolResult)]
    assert [(one.name, one.id) for one in answers] == [("g", None), ("f", "c1"), ("f", "c1"), ("f", "c9")]
    assert not found.violations


@each_case(
    ("contents", "paths"),
    [
        ([{"role": "robot", "parts": []}, user(text("x"))], ["contents[0].role"]),
        ([user(call("f"))], ["contents[0].parts[0].functionCall"]),
        ([model(result("f"))], ["contents[0].parts[0].functionResponse"]),
        ([{"role": "system", "parts": [call("f")]}, user(text("x"))], ["contents[0].parts[0].functionCall"]),
        ([user({"text": "x", "functionCall": {"name": "f"}})], ["contents[0].parts[0]"]),
        ([user({"inlineData": {"mimeType": "a/b", "data": ""}})], ["contents[0].parts[0].inlineData.mimeType"]),
        ([user(text(""))], ["contents"]),
        ([], ["contents"]),
        ([5, user({"fileData": {"fileUri": "gs://a"}})], ["contents[0]", "contents[1].parts[0].fileData.fileUri"]),
    ],
)
def test_what_is_wrong_is_said_at_its_place(contents: list[Any], paths: list[str]) -> None:
    assert [one.path for one in parse(*contents).violations] == paths


@each_case(
    ("part", "word"),
    [
        ({"toolCall": {"x": 1}}, "toolCall was left out"),
        ({"text": "x", "videoMetadata": {"fps": 1}}, "videoMetadata was ignored"),
        ({"text": "x", "odd": 1}, "odd is not a field"),
    ],
)
def test_what_is_left_out_has_a_warning(part: Json, word: str) -> None:
    [warning] = parse(user(text("Hi"), part)).warnings
    assert warning.startswith("contents[0].parts[1].")
    assert word in warning


def test_a_system_content_is_a_system_message() -> None:
    found = parse({"role": "SYSTEM", "parts": [text("Be brief."), text("")]}, user(text("x")))
    assert found.messages[0] == Message("system", (Text("Be brief."),), path="contents[0]")


def test_thoughts_are_reasoning_and_a_seal_wins_over_them() -> None:
    assert turn(text("Hm", thought=True), text("m.", thought=True), text("Hi")).parts == (Reasoning("Hmm."), Text("Hi"))
    sealed = write_signature(Seal("All of it."))
    assert turn(text("Hm", thought=True), text("Hi"), text("", thoughtSignature=sealed)).parts == (
        Reasoning("All of it."),
        Text("Hi"),
    )
    assert turn(text("", thought=True), text("Hi")).parts == (Text("Hi"),)


def test_a_seal_gives_details_and_fields_back() -> None:
    sealed = write_signature(Seal(None, [{"d": 1}], {"c1": OWN, "c2": OTHER}, [{"phase": "x"}]))
    message = turn(text("Hi"), call("f", "c1", thoughtSignature=sealed), call("g", "c2"))
    assert message.extra == {"reasoning_details": [{"d": 1}], "extra_content": {"phase": "x"}}
    assert [part.extra for part in message.parts if isinstance(part, ToolCall)] == [
        {"extra_content": OWN},
        {"extra_content": OTHER},
    ]


def test_fields_of_calls_whose_ids_the_client_dropped_go_to_them_in_order() -> None:
    sealed = write_signature(Seal(None, [], {"c1": OWN}))
    [given] = [part for part in turn(call("f", thoughtSignature=sealed)).parts if isinstance(part, ToolCall)]
    assert given.extra == {"extra_content": OWN}


def test_googles_signatures_stay_with_their_parts() -> None:
    first, second = parse(model(text("a", thoughtSignature="czE="), text("b", thoughtSignature="czI="))).messages
    assert (first.parts, first.extra) == ((Text("a"),), {"extra_content": OWN})
    assert (second.parts, second.extra) == ((Text("b"),), {"extra_content": OTHER})
    assert first.turn == second.turn == "contents[0]"


def test_a_signature_on_an_empty_text_is_that_of_the_text_before() -> None:
    message = turn(text("a"), text("", thoughtSignature="czE="))
    assert (message.parts, message.extra) == ((Text("a"),), {"extra_content": OWN})
    assert turn(text("", thoughtSignature="czE=")).extra == {"extra_content": OWN}


def test_a_signature_on_a_thought_is_that_of_what_follows() -> None:
    message = turn(text("Hm", thought=True, thoughtSignature="czE="), call("f", "c1"))
    assert [part.extra for part in message.parts if isinstance(part, ToolCall)] == [{"extra_content": OWN}]


def test_code_that_ran_at_google_is_a_block_of_text() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
    output = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
    assert turn(text("Look:"), code, output, text("Done.")).parts == (
        Text("Look:\n```python\nprint(1)\n```\n```\n1\n```\nDone."),
    )


def test_a_turn_that_thinks_twice_is_marked_as_one() -> None:
    message = turn(text("A", thought=True), text("one"), text("B", thought=True), text("two"))
    assert message.turn == "contents[1]"
    assert message.parts == (Reasoning("A"), Text("one"), Reasoning("B"), Text("two"))


def test_media_of_the_model_are_media() -> None:
    [part] = turn({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}).parts
    assert isinstance(part, Media)


def test_a_list_of_messages_has_paths_in_the_callers_spelling() -> None:
    wrong = [{"role": "user", "parts": [{"inline_data": {"mime_type": "a/b", "data": ""}}]}]
    assert [one.path for one in parse_messages(wrong, Options()).violations] == [
        "messages[0].parts[0].inline_data.mime_type"
    ]
    assert not parse_messages([model(call("f", "c1"))], Options()).violations


@each_case(
    "part",
    [
        *(text(""), text("a"), text("a", thought=True), text("a", thoughtSignature="czE="), text("a", odd=1), {}),
        *(call("f"), call("f", "c1"), call(" "), {"functionCall": {"name": "f", "args": {"a": [None]}}}, {"text": 1}),
        *(result("f"), result("f", "c1", a=1), {"functionResponse": {"response": "x", "parts": []}}),
        *(text("a", functionCall={"name": "f"}), text("a", thought="yes"), {"functionCall": None, "text": "a"}),
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
    ],
)
@each_case("role", ["user", "model", "system", "function", "MODEL", "odd", None, 1])
def test_the_usual_form_is_read_as_any_other(part: Json, role: Any) -> None:
    contents = [model(call("f", "c1")), {"role": role, "parts": [part]}]
    plain = parse(*contents)
    with_null = parse_contents(contents, [{**one, "odd": None} for one in canonicalize(contents)], "contents")
    warned = [one for one in with_null.warnings if ".odd is not a field" not in one or "parts" in one]
    assert (with_null.messages, with_null.violations, warned) == (plain.messages, plain.violations, [*plain.warnings])
