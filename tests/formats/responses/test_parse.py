"""Items of the Responses API: what they become, how they are written, and what is refused at which place."""

import json
from typing import Any

from app.chat.messages import Media, Text, ToolCall, ToolResult
from app.formats.base import Options, ParsedMessages
from app.formats.media_urls import describe_wrong_url
from app.formats.responses import RESPONSES
from app.formats.responses.parse import parse_items
from app.formats.responses.schema import STORED_FILE
from app.formats.seal import Seal, SealedResult, write_seal

from tests.each_case import each_case

Json = dict[str, Any]


def parse(*items: Json) -> ParsedMessages:
    return RESPONSES.parse(list(items), Options())


def of_user(*parts: Json) -> Json:
    return {"type": "message", "role": "user", "content": list(parts)}


@each_case(
    ("part", "url"),
    [
        ({"file_data": "JVBERi0=", "filename": "a.pdf"}, "data:application/pdf;base64,JVBERi0="),
        ({"file_data": "JVBERi0="}, "data:application/octet-stream;base64,JVBERi0="),
        ({"file_data": "data:text/plain;base64,aGk="}, "data:text/plain;base64,aGk="),
        ({"file_url": "https://e.com/a.pdf"}, "https://e.com/a.pdf"),
    ],
)
def test_a_file_is_bare_base64_a_data_uri_or_a_url(part: Json, url: str) -> None:
    [message] = parse(of_user({"type": "input_file", **part})).messages
    [file] = message.parts
    assert isinstance(file, Media)
    assert (file.media, file.urls, file.path.rpartition(".")[2]) == ("file", (url,), next(iter(part)))


@each_case(
    ("part", "message"),
    [
        ({"type": "input_image"}, "must have its content in image_url"),
        ({"type": "input_file", "filename": "a.pdf"}, "must have its content in file_data or file_url"),
    ],
)
def test_a_part_without_content_is_refused_at_its_place(part: Json, message: str) -> None:
    [violation] = parse(of_user(part)).violations
    assert (violation.path, violation.message) == ("messages[0].content[0]", message)


CALL: Json = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}


@each_case(
    ("call", "output", "name", "arguments", "texts"),
    [
        (
            {"type": "shell_call", "action": {"commands": ["ls"]}, "status": "completed"},
            {
                "type": "shell_call_output",
                "output": [
                    {"stdout": "a\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
                    {"stdout": "", "stderr": "no such file", "outcome": {"type": "exit", "exit_code": 2}},
                    {"stdout": "b", "stderr": "", "outcome": {"type": "timeout"}},
                ],
            },
            "shell",
            {"commands": ["ls"]},
            ["a", "no such file\n(exit code 2)", "b\n(the command timed out)"],
        ),
        (
            {"type": "local_shell_call", "id": "ls_1", "action": {"type": "exec", "command": ["ls"], "env": {}}},
            {"type": "local_shell_call_output", "output": '{"stdout": "a"}'},
            "local_shell",
            {"type": "exec", "command": ["ls"], "env": {}},
            ['{"stdout": "a"}'],
        ),
        (
            {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a.txt"}, "status": "completed"},
            {"type": "apply_patch_call_output", "status": "completed", "output": "Deleted."},
            "apply_patch",
            {"type": "delete_file", "path": "a.txt"},
            ["Deleted."],
        ),
        (
            {"type": "tool_search_call", "execution": "client", "arguments": {"query": "mail"}},
            {
                "type": "tool_search_output",
                "execution": "client",
                "status": "completed",
                "tools": [
                    {"type": "namespace", "name": "mail", "tools": [{"type": "function", "name": "send"}]},
                    {"type": "function", "name": "find", "description": "Finds."},
                    "?",
                ],
            },
            "tool_search",
            {"query": "mail"},
            ['{"tools": [{"name": "mail__send"}, {"name": "find", "description": "Finds."}]}'],
        ),
    ],
)
def test_a_call_that_the_client_has_run_is_a_call_with_its_result(
    call: Json, output: Json, name: str, arguments: Json, texts: list[str]
) -> None:
    items = [of_user(), {**call, "call_id": "c"}, {**output, "call_id": "c"}]
    parsed = parse_items({"input": items}, settings_are_read=True)
    assert not parsed.violations and not parsed.warnings
    called, answered = parsed.messages[1].parts[0], parsed.messages[2].parts[0]
    assert isinstance(called, ToolCall) and isinstance(answered, ToolResult)
    assert (called.name, json.loads(called.arguments), called.id) == (name, arguments, "c")
    assert (answered.content, answered.id, answered.is_error) == (tuple(map(Text, texts)), "c", None)


def test_a_patch_that_failed_is_an_error_also_without_words() -> None:
    call = {"type": "apply_patch_call", "call_id": "c", "operation": {}}
    output = {"type": "apply_patch_call_output", "call_id": "c", "status": "failed"}
    assert parse(call, output).messages[1].parts == (ToolResult((Text("failed"),), None, "c", True),)


@each_case("named", [{"call_id": "c"}, {"id": "ls_1"}, {"id": "ls_1", "call_id": None}])
def test_the_output_of_a_local_shell_names_the_call_or_its_item(named: Json) -> None:
    call = {"type": "local_shell_call", "id": "ls_1", "call_id": "c", "action": {}}
    parsed = parse(call, {"type": "local_shell_call_output", "output": "a", **named})
    assert parsed.messages[1].parts == (ToolResult((Text("a"),), None, "c"),)


def test_a_call_of_a_local_shell_needs_no_item_id() -> None:
    call = {"type": "local_shell_call", "call_id": "c", "action": {}}
    parsed = parse(call, {"type": "local_shell_call_output", "output": "a", "call_id": "c"})
    assert parsed.messages[0].parts == (ToolCall("local_shell", "{}", "c", path="messages[0]"),)
    assert parsed.messages[1].parts == (ToolResult((Text("a"),), None, "c"),)


@each_case(
    ("item", "message"),
    [
        ({"type": "local_shell_call", "action": {}}, "must have a call_id"),
        ({"type": "local_shell_call_output", "output": "a"}, "must have the call_id of its call"),
    ],
)
def test_an_item_of_a_local_shell_without_an_id_is_refused(item: Json, message: str) -> None:
    for ids in ({}, {"id": ""}, {"id": None, "call_id": None}):
        [violation] = parse({**item, **ids}).violations
        assert violation.path == "messages[0]"
        assert message in violation.message


def test_parallel_calls_of_several_kinds_are_one_message() -> None:
    shell = {"type": "shell_call", "call_id": "a", "action": {}}
    outputs: list[Json] = [{"type": "function_call_output", "call_id": "c", "output": "1"}]
    outputs.append({"type": "shell_call_output", "call_id": "a", "output": []})
    parsed = parse(
        of_user(), {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]}, CALL, shell
    )
    assert [part.kind for part in parsed.messages[1].parts] == ["reasoning", "tool_call", "tool_call"]
    assert [message.role for message in parse(CALL, shell, *outputs).messages] == ["assistant", "tool", "tool"]


def test_a_search_that_ran_at_a_provider_is_left_out_with_a_warning() -> None:
    items: list[Json] = [
        {"type": "tool_search_call", "execution": "server", "call_id": None, "arguments": {}},
        {"type": "tool_search_output", "execution": "server", "call_id": None, "tools": []},
    ]
    parsed = parse(of_user({"type": "input_text", "text": "Hi"}), *items)
    assert [message.role for message in parsed.messages] == ["user"]
    assert [warning.partition(":")[0] for warning in parsed.warnings] == ["messages[1]", "messages[2]"]


def test_tools_that_a_search_found_have_no_effect_where_settings_are_not_read() -> None:
    items: list[Json] = [
        {"type": "tool_search_call", "execution": "client", "call_id": "c", "arguments": {}},
        {"type": "tool_search_output", "execution": "client", "call_id": "c", "tools": []},
    ]
    parsed = parse(*items)
    assert [message.role for message in parsed.messages] == ["assistant", "tool"]
    assert [warning.partition(":")[0] for warning in parsed.warnings] == ["messages[1].tools"]


@each_case(
    "item",
    [
        {"type": "additional_tools", "role": "developer", "tools": []},
        {"type": "configuration_update", "reasoning": {"effort": "low"}},
        {"type": "compaction_trigger"},
    ],
)
def test_tools_and_settings_are_no_part_of_the_conversation(item: Json) -> None:
    """They stand between the parts of one turn without ending it."""
    text = {"type": "message", "role": "assistant", "content": "So:"}
    items = [of_user({"type": "input_text", "text": "Hi"}), text, item, CALL]
    parsed = parse_items({"input": items}, settings_are_read=True)
    assert [message.role for message in parsed.messages] == ["user", "assistant"]
    assert not parsed.warnings and not parsed.violations
    assert [warning.partition(":")[0] for warning in parse(*items).warnings] == ["messages[2]"]


@each_case("kind", ["function_call_output", "custom_tool_call_output"])
def test_images_that_a_client_wrote_into_the_text_of_an_output_are_images(kind: str) -> None:
    """router-for-me/CLIProxyAPI#4699 and #4902."""
    image = {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "high"}
    parts = [{"type": "input_text", "text": "see"}, image]
    written = parse(CALL, {"type": kind, "call_id": "c", "output": json.dumps(parts)})
    assert written == parse(CALL, {"type": kind, "call_id": "c", "output": parts})
    [text, media] = [part for one in written.messages[1].parts if isinstance(one, ToolResult) for part in one.content]
    assert (text.kind, media.kind) == ("text", "media")


@each_case(
    "text",
    [
        '[{"type": "input_image", "image_url": "https://internal.test/secret"}]',
        '[{"type": "input_image", "image_url": "file:///etc/passwd"}]',
        '[{"type": "input_image"}]',
        '[{"type": "input_image", "image_url": "data:image/png;base64,AA=="}, 1]',
        '[{"type": "input_image", "image_url": "data:image/png;base64,AA=="}',
        'See [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]',
        '[{"type": "input_text", "text": "x"}]',
        "[" * 9999 + '"input_image"',
    ],
)
def test_any_other_text_of_an_output_stays_a_text(text: str) -> None:
    output = {"type": "function_call_output", "call_id": "c", "output": text}
    assert parse(CALL, output).messages[1].parts == (ToolResult((Text(text),), None, "c"),)


def test_several_outputs_of_a_call_are_one_result() -> None:
    """Codex: what a script notifies of comes as an output of its call, before or after the last one."""

    def output(text: str, call_id: str = "c") -> Json:
        return {"type": "custom_tool_call_output", "call_id": call_id, "output": text}

    items = [CALL, {**CALL, "call_id": "d"}, output("1"), output("x", "d"), output("2"), CALL, output("3")]
    parsed = parse(*items)
    assert [message.role for message in parsed.messages] == ["assistant", "tool", "tool", "assistant", "tool"]
    assert [message.parts for message in parsed.messages if message.role == "tool"] == [
        (ToolResult((Text("1"), Text("2")), None, "c"),),
        (ToolResult((Text("x"),), None, "d"),),
        (ToolResult((Text("3"),), None, "c"),),
    ]


def test_an_output_without_a_call_becomes_a_text_of_the_user() -> None:
    item = {"type": "function_call_output", "name": "sleep", "namespace": "clock", "output": "Time is up."}
    [message] = parse(item).messages
    assert (message.role, message.parts) == ("user", (Text("Output of the tool clock__sleep:"), Text("Time is up.")))
    assert parse({"type": "function_call_output", "output": "x"}).violations[0].path == "messages[0]"


def test_a_message_of_another_agent_becomes_a_text_of_the_user() -> None:
    content = [{"type": "input_text", "text": "Done."}, {"type": "encrypted_content", "encrypted_content": "zz"}]
    parsed = parse({"type": "agent_message", "author": "/main/a", "recipient": "/main", "content": content})
    head = Text("Message from the agent /main/a to /main:")
    assert (parsed.messages[0].role, parsed.messages[0].parts) == ("user", (head, Text("Done.")))
    assert [warning.partition(":")[0] for warning in parsed.warnings] == ["messages[0].content"]


def test_a_message_of_another_agent_that_can_be_read_gives_no_warning() -> None:
    content = [{"type": "input_text", "text": "One."}, {"type": "input_text", "text": "Two."}]
    parsed = parse({"type": "agent_message", "author": "/main/a", "recipient": "/main", "content": content})
    assert parsed.messages[0].parts[1:] == (Text("One."), Text("Two."))
    assert not parsed.warnings


def test_a_summary_is_read_if_the_gateway_wrote_it() -> None:
    ours = {"type": "compaction", "encrypted_content": write_seal(Seal("They met."))}
    parsed = parse(ours, {"type": "compaction", "encrypted_content": "gAAA"}, {"type": "context_compaction"})
    assert [message.parts for message in parsed.messages] == [
        (Text("Summary of the conversation so far:\n\nThey met."),),
        (),
    ]
    assert [warning.partition(":")[0] for warning in parsed.warnings] == ["messages[2]"]
    # Another provider's summary is for a server of the same API; any other does not get it, with a warning.
    assert parsed.messages[1].extra["reasoning_details"][0]["item"]["encrypted_content"] == "gAAA"
    assert [warning.partition(":")[0] for warning in parsed.messages[1].extra["unread"]] == ["messages[1]"]


def test_codex_sends_sound_by_its_url() -> None:
    [message] = parse(of_user({"type": "input_audio", "audio_url": "data:audio/wav;base64,aGk="})).messages
    [sound] = message.parts
    assert isinstance(sound, Media)
    assert (sound.media, sound.urls, sound.path) == (
        "audio",
        ("data:audio/wav;base64,aGk=",),
        "messages[0].content[0].audio_url",
    )
    assert parse(of_user({"type": "input_audio"})).violations[0].path == "messages[0].content[0]"


@each_case(
    ("part", "key", "message"),
    [
        (
            {"type": "input_image", "image_url": "file:///etc/passwd"},
            "image_url",
            describe_wrong_url("file:///etc/passwd"),
        ),
        ({"type": "input_image", "file_id": "file-1"}, "file_id", STORED_FILE),
        (
            {"type": "input_file", "file_data": "no base64!"},
            "file_data",
            "must be base64, an http(s) URL or a data URI",
        ),
    ],
)
def test_what_the_gateway_cannot_read_is_refused_at_its_place(part: Json, key: str, message: str) -> None:
    violations = parse(of_user(part)).violations
    assert (f"messages[0].content[0].{key}", message) in [(one.path, one.message) for one in violations]


def test_a_reference_to_an_item_that_is_not_stored_says_what_to_do() -> None:
    [violation] = parse({"type": "item_reference", "id": "rs_1"}).violations
    assert violation.path == "messages[0].id"
    assert "rs_1" in violation.message and "send the item itself" in violation.message


def test_a_file_id_may_be_null() -> None:
    image = {"type": "input_image", "image_url": "https://e.com/a.png", "file_id": None}
    [message] = parse(of_user(image)).messages
    assert [part.urls for part in message.parts if isinstance(part, Media)] == [("https://e.com/a.png",)]


def test_the_signatures_of_a_seal_are_those_of_the_calls_that_it_names() -> None:
    seal = write_seal(Seal("r", [], {"c1": {"google": 1}}))
    calls = [{**CALL, "call_id": id_} for id_ in ("c1", "c2")]
    parsed = parse({"type": "reasoning", "summary": [], "encrypted_content": seal}, *calls)
    found = [part.extra for one in parsed.messages for part in one.parts if isinstance(part, ToolCall)]
    assert found == [{"extra_content": {"google": 1}}, {}]


SEARCHED = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}
RAN = {"type": "mcp_call", "id": "mcp_c2", "server_label": "wx", "name": "now", "arguments": "{}", "output": "12"}


def seal_results(*ids: str, ends_turn: bool = False) -> Json:
    results = {id_: SealedResult(f"c_{id_}", "web_search", '{"query": "q"}', "found") for id_ in ids}
    return {
        "type": "reasoning",
        "summary": [],
        "encrypted_content": write_seal(Seal(results=results, ends_turn=ends_turn)),
    }


def list_roles(*items: Json) -> list[str]:
    return [message.role for message in parse(HELLO, *items).messages]


HELLO = of_user({"type": "input_text", "text": "Hi"})


def test_searches_with_their_results_behind_them_are_calls_and_results() -> None:
    messages = parse(HELLO, SEARCHED, RAN, seal_results("ws_1", ends_turn=True), HELLO).messages
    assert [message.role for message in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert [part.id for part in messages[1].parts if isinstance(part, ToolCall)] == ["c_ws_1", "c2"]
    result = {"call_id": "c", "name": "web_search", "arguments": "{}", "text": ""}
    own = {**SEARCHED, "parley": {"result": result}}
    assert list_roles(own, {**own, "id": "ws_2"}, HELLO) == ["user", "assistant", "tool", "tool", "user"]
    ended = {**own, "parley": {"result": result, "ends_turn": True}}
    assert list_roles(ended, {**own, "id": "ws_2"}) == ["user", "assistant", "tool", "assistant", "tool"]


@each_case(
    "items",
    [
        [SEARCHED],
        [SEARCHED, HELLO],
        [SEARCHED, seal_results("ws_other")],
        [SEARCHED, {"type": "reasoning", "summary": [{"type": "summary_text", "text": "So"}]}],
        [{**SEARCHED, "parley": {"result": {"text": 5}}}, HELLO],
        [{**SEARCHED, "parley": 5}, HELLO],
        [SEARCHED, {"type": "code_interpreter_call", "id": "ci_1"}],
    ],
)
def test_a_search_without_its_results_is_left_out_at_its_place(items: list[Json]) -> None:
    messages = parse(HELLO, *items).messages
    assert "tool" not in [message.role for message in messages]
    assert messages[1].extra["reasoning_details"][0]["item"]["id"] == "ws_1"


def test_a_call_of_the_gateway_behind_a_search_without_results_stays() -> None:
    assert list_roles(SEARCHED, RAN, HELLO) == ["user", "assistant", "tool", "user"]
