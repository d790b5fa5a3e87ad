"""AgentScope's messages are read leniently where versions differ, and strictly where something would be lost."""

from typing import Any

import pytest
from app.chat.messages import Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.formats.agentscope.v1 import AGENTSCOPE
from app.formats.agentscope.v2 import AGENTSCOPE2
from app.formats.base import Format, Options

from tests.each_case import each_case
from tests.formats.agentscope.cases import Json, decoded, encoded, msg, refused, warned

PDF = "data:application/pdf;base64,JVBERi0="


def parts(form: Format, *messages: Json) -> list[Any]:
    """The parts of each message, without their places."""
    return [[_nowhere(part) for part in message.parts] for message in decoded(form, *messages)]


def _nowhere(part: Any) -> Any:
    return (part.media, *part.urls) if isinstance(part, Media) else part


def use(**fields: Any) -> Json:
    return {"type": "tool_use", "id": "c", "name": "f", "input": {}, **fields}


def call(**fields: Any) -> Json:
    return {"type": "tool_call", "id": "c", "name": "f", "input": "{}", **fields}


def url(address: str, kind: str = "image") -> Json:
    return {"type": kind, "source": {"type": "url", "url": address}}


def data(address: str, media_type: str, **fields: Any) -> Json:
    return {"type": "data", "source": {"type": "url", "url": address, "media_type": media_type}, **fields}


TURN_1 = [
    {"type": "thinking", "thinking": "r"},
    {"type": "text", "text": "a"},
    url("https://h/a.png"),
    use(input={"x": "é"}),
    {"type": "tool_result", "id": "c", "name": "f", "output": [{"type": "text", "text": "ok"}, url("https://h/b.png")]},
    {"type": "text", "text": "b"},
]
TURN_2 = [
    {"type": "thinking", "thinking": "r"},
    {"type": "text", "text": "a"},
    data("https://h/a.png", "image/png"),
    call(input='{"x": "é"}'),
    {
        "type": "tool_result",
        "id": "c",
        "name": "f",
        "output": [{"type": "text", "text": "ok"}, data("https://h/b.png", "image/png")],
    },
    {"type": "text", "text": "b"},
]


@pytest.mark.parametrize(("form", "blocks"), [(AGENTSCOPE, TURN_1), (AGENTSCOPE2, TURN_2)], ids=["1", "2"])
def test_blocks_of_a_message_are_pieces_of_one_turn_in_their_order(form: Format, blocks: list[Json]) -> None:
    found = decoded(form, msg(blocks, id="m1"))
    assert [(one.role, one.turn, one.name) for one in found] == [
        ("assistant", "m1", "Friday"),
        ("assistant", "m1", "Friday"),
        ("assistant", "m1", "Friday"),
        ("tool", "m1", None),
        ("assistant", "m1", "Friday"),
    ]
    image = Media("image", ("https://h/b.png",), path=found[3].parts[0].content[1].path)  # type: ignore[union-attr]
    assert [one.parts for one in found if one is not found[1]] == [
        (Reasoning("r"),),
        (ToolCall("f", '{"x": "é"}', "c"),),
        (ToolResult((Text("ok"), image), "f", "c"),),
        (Text("b"),),
    ]
    assert parts(form, msg(blocks))[1] == [Text("a"), ("image", "https://h/a.png")]
    assert image.path == "messages[0].content[4].output[1].source.url"


@pytest.mark.parametrize("form", [AGENTSCOPE, AGENTSCOPE2], ids=["1", "2"])
def test_an_unknown_block_is_refused_with_its_place(form: Format) -> None:
    good, odd = {"type": "text", "text": "t"}, {"type": "odd"}
    ((path, message),) = refused(form, msg([good]), msg([good, odd]))
    assert path == "messages[1].content[1]"
    assert "text, thinking" in message
    for block in ("text", None, 1, {}, {"type": 1}, [good]):
        assert [path for path, _ in refused(form, msg([good, block]))] == ["messages[0].content[1]"]


@pytest.mark.parametrize("address", ["/etc/passwd", "file:///etc/passwd", "a.png", "C:\\a.png", "ftp://h/a", ""])
def test_a_path_of_this_machine_is_refused(address: str) -> None:
    inside = {"type": "tool_result", "id": "c", "name": "f"}
    for form, block in ((AGENTSCOPE, url(address)), (AGENTSCOPE2, data(address, "image/png"))):
        assert [path for path, _ in refused(form, msg([block]))] == ["messages[0].content[0].source.url"]
        nested = msg([{**inside, "output": [block]}])
        assert [path for path, _ in refused(form, nested)] == ["messages[0].content[0].output[0].source.url"]
    assert [path for path, _ in refused(AGENTSCOPE, msg("x", url=address))] == ["messages[0].url"]
    assert refused(AGENTSCOPE, msg([{"type": "image", "url": address}]))


def test_all_violations_are_reported_at_once() -> None:
    found = refused(AGENTSCOPE, msg([{"type": "odd"}]), msg("x", role="tool"), {"role": "user", "content": 1})
    paths = ["messages[0].content[0]", "messages[1].role", "messages[2].content", "messages[2].name"]
    assert sorted(path for path, _ in found) == paths


def test_only_an_assistant_calls_and_thinks() -> None:
    assert [path for path, _ in refused(AGENTSCOPE, msg([use()], "user"))] == ["messages[0].content[0]"]
    assert [path for path, _ in refused(AGENTSCOPE2, msg([call()], "user"))] == ["messages[0].content[0]"]
    thought = [{"type": "thinking", "thinking": "r"}, {"type": "text", "text": "t"}]
    assert parts(AGENTSCOPE, msg(thought, "user")) == [[Text("t")]]
    assert warned(AGENTSCOPE, msg(thought, "user")) == [
        "messages[0].content[0] was not sent: only an assistant message can have thinking"
    ]


@pytest.mark.parametrize(
    ("block", "arguments"),
    [
        (use(input={"a": 1}), '{"a": 1}'),
        (use(input={"a": 1}, raw_input='{"a":  1}'), '{"a":  1}'),
        (use(input={"a": 2}, raw_input='{"a":  1}'), '{"a": 2}'),
        (use(input={"a": 1}, raw_input='{"a": true}'), '{"a": 1}'),
        (use(input={"城": "巴"}, raw_input="{"), '{"城": "巴"}'),
        (use(input={}, raw_input='{"a": "Par'), '{"a": "Par'),
        (use(input={}, raw_input=""), ""),
        (use(input={}, raw_input=None), "{}"),
    ],
)
def test_raw_input_is_trusted_where_it_gives_the_input(block: Json, arguments: str) -> None:
    assert parts(AGENTSCOPE, msg([block])) == [[ToolCall("f", arguments, "c")]]


OLD_FORMS: list[tuple[Json, list[Any]]] = [
    (msg("t", "user", __module__="agentscope.message.msg", __name__="Msg", timestamp="2024-01-01 00:00:00"), ["t"]),
    (msg([{"type": "image", "url": "https://h/a.png"}], "user"), [("image", "https://h/a.png")]),
    (msg([{"type": "audio", "url": "https://h/a.wav"}], "user"), [("audio", "https://h/a.wav")]),
    (msg([{"type": "file", "url": "https://h/a.pdf"}], "user"), [("file", "https://h/a.pdf")]),
    (msg("t", "user", url="https://h/a.mp4"), ["t", ("video", "https://h/a.mp4")]),
    (msg("", "user", url=["https://h/a", "https://h/a.pdf"]), [("image", "https://h/a"), ("file", "https://h/a.pdf")]),
    (msg(None, "user", metadata=None), []),
]


@pytest.mark.parametrize(("message", "wanted"), OLD_FORMS)
def test_forms_of_older_versions_are_read(message: Json, wanted: list[Any]) -> None:
    expected = [Text(part) if isinstance(part, str) else part for part in wanted]
    assert parts(AGENTSCOPE, message) == [expected]
    assert not warned(AGENTSCOPE, message)


def test_media_keep_type_and_name() -> None:
    sound = {"type": "base64", "media_type": "audio/mpeg", "data": "AAAA"}
    assert parts(AGENTSCOPE, msg([{"type": "audio", "source": sound}])) == [[("audio", "data:audio/mpeg;base64,AAAA")]]
    whole = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    (found,) = decoded(AGENTSCOPE2, msg([{"type": "data", "source": whole, "name": "a.pdf"}]))
    assert found.parts == (Media("file", (PDF,), name="a.pdf", path="messages[0].content[0].source.data"),)


@pytest.mark.parametrize(
    "source",
    [
        {"type": "base64", "media_type": "png", "data": "AAAA"},
        {"type": "base64", "media_type": "image/png", "data": ""},
        {"type": "base64", "media_type": "image/png", "data": "/tmp/a b.png?"},
        {"type": "path", "url": "https://h/a.png"},
        None,
    ],
)
def test_a_source_that_is_none_is_refused(source: Any) -> None:
    assert refused(AGENTSCOPE, msg([{"type": "image", "source": source}]))
    assert refused(AGENTSCOPE2, msg([{"type": "data", "source": source}]))


@pytest.mark.parametrize(
    ("state", "is_error"),
    [("success", False), ("error", True), ("interrupted", True), ("denied", True), ("running", None)],
)
def test_the_state_of_a_result_says_whether_it_failed(state: str, is_error: bool | None) -> None:
    block = {"type": "tool_result", "id": "c", "name": "f", "output": "x", "state": state}
    assert parts(AGENTSCOPE2, msg([block])) == [[ToolResult((Text("x"),), "f", "c", is_error)]]


def test_a_hint_is_a_users_message() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "hint", "hint": "remember", "source": "system"}]
    answer, hint = decoded(AGENTSCOPE2, msg(blocks))
    assert answer.role == "assistant"
    assert (hint.role, hint.name, hint.parts) == ("user", None, (Text("remember"),))
    assert hint.extra["hint"] == {"source": "system"}


def test_a_message_without_an_id_has_its_place_for_a_turn() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "b"}]
    assert [one.turn for one in decoded(AGENTSCOPE, msg(blocks), msg(blocks, id=""))] == [
        "messages[0]",
        "messages[0]",
        "messages[1]",
        "messages[1]",
    ]


def test_unknown_keys_are_named_in_a_warning() -> None:
    assert warned(AGENTSCOPE, msg("t", odd=1)) == [
        "messages[0].odd is not a field of an AgentScope message and was ignored"
    ]
    assert warned(AGENTSCOPE2, msg([], timestamp="x")) == [
        "messages[0].timestamp is not a field of an AgentScope message and was ignored"
    ]
    assert warned(AGENTSCOPE2, msg([call(input="{")])) == ["messages[0].content[0].input is not valid JSON"]


def test_an_empty_message_is_one_without_parts() -> None:
    for form, content in ((AGENTSCOPE, ""), (AGENTSCOPE, []), (AGENTSCOPE2, [])):
        (found,) = decoded(form, msg(content))
        assert isinstance(found, Message)
        assert found.parts == ()


@pytest.mark.parametrize("form", [AGENTSCOPE, AGENTSCOPE2], ids=["1", "2"])
def test_an_empty_list_is_refused(form: Format) -> None:
    assert refused(form) == [("messages", "must not be empty")]


def test_sound_may_be_bare_base64_in_notes_as_qwen_agent_has_it() -> None:
    sound = Message("user", (Media("audio", ("UklGRg==",)),))
    for form in (AGENTSCOPE, AGENTSCOPE2):
        [item] = encoded(form, [sound])
        [again] = decoded(form, item)
        assert [part.urls for part in again.parts if isinstance(part, Media)] == [("UklGRg==",)]


def test_media_of_a_system_message_are_named_in_a_text_and_are_a_loss() -> None:
    system = Message("system", (Text("See"), Media("image", ("https://e.com/a.png",))), path="messages[0]")
    found = AGENTSCOPE2.write([system], Options())
    assert [block["type"] for block in found.messages[0]["content"]] == ["text", "text"]
    assert [loss.path for loss in found.losses] == ["messages[0]"]


def moved(*messages: Message) -> list[str]:
    return [loss.path for loss in AGENTSCOPE2.write(messages, Options()).losses]


def test_a_result_moves_behind_the_call_that_it_answers_and_stays_where_there_is_none() -> None:
    user, said = Message("user", (Text("q"),)), Message("assistant", (Text("a"),))
    first, second = (Message("assistant", (ToolCall("f", "{}", id_),)) for id_ in ("1", "2"))
    answer = Message("tool", (ToolResult((Text("x"),), "f", "1"),), path="result")
    assert moved(first, answer) == []
    assert moved(first, user, answer) == ["result"]
    assert moved(first, user, second, user, answer) == ["result"]
    assert moved(said, user, answer) == []
    assert moved(second, user, answer) == []


@each_case(("form", "key"), [(AGENTSCOPE, "timestamp"), (AGENTSCOPE2, "created_at")])
def test_a_time_that_was_added_to_a_message_with_notes_comes_back(form: Format, key: str) -> None:
    sound = Media("audio", ("https://e.com/x",), format="wav")
    [item] = encoded(form, [Message("user", (Text("a"), sound), name="bob")])
    dated = item | {key: "2026-02-02T00:00:00"}
    assert encoded(form, decoded(form, dated)) == [dated]
