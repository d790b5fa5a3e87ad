"""Media of the history that the schema of a format refuses become texts; those of the newest message are violations."""

from typing import Any

from app.chat.messages import Text
from app.formats import FORMATS
from app.formats.base import Options, ParsedMessages
from app.formats.old_media import parse_with_old_media

from tests.each_case import each_case

Json = dict[str, Any]
OLD: list[Json] = [{"role": "assistant", "content": "A"}, {"role": "user", "content": "B"}]


def parse(*messages: Json, name: str = "openai") -> ParsedMessages:
    return parse_with_old_media(FORMATS[name], list(messages), Options())


def image(url: Any) -> Json:
    return {"type": "image_url", "image_url": {"url": url}}


def of_user(*parts: Json) -> Json:
    return {"role": "user", "content": list(parts)}


@each_case(
    ("part", "text"),
    [
        (image("/tmp/a.png"), "[image: a.png (not sent: "),
        (image(""), "[image: image (not sent: "),
        ({"type": "image_url", "image_url": {}}, "[image: image (not sent: "),
        ({"type": "file", "file": {"file_id": "f-1", "filename": "b.pdf"}}, "[file: b.pdf (not sent: "),
        ({"type": "input_audio", "input_audio": {"data": "file:///a.wav"}}, "[audio: "),
    ],
)
def test_a_medium_of_the_history_becomes_a_text_with_a_warning(part: Json, text: str) -> None:
    parsed = parse(of_user({"type": "text", "text": "see"}, part), *OLD)
    first, second = parsed.messages[0].parts
    assert first == Text("see")
    assert isinstance(second, Text) and second.text.startswith(text)
    [warning] = parsed.warnings
    assert warning.startswith("messages[0].content[1].") and " was not sent: " in warning
    assert not parsed.violations


def test_a_medium_of_the_newest_message_is_a_violation_and_so_is_one_beside_it() -> None:
    assert [one.path for one in parse(of_user(image("/a.png"))).violations] == ["messages[0].content[0].image_url.url"]
    both = parse(of_user(image("/a.png")), OLD[0], of_user(image("/b.png")))
    assert [one.path for one in both.violations] == ["messages[2].content[0].image_url.url"]


def test_other_mistakes_are_reported_with_the_media() -> None:
    parsed = parse(of_user(image("/a.png")), *OLD, {"role": "nobody", "content": "x"})
    assert [one.path for one in parsed.violations] == ["messages[0].content[0].image_url.url", "messages[3].role"]


def test_a_conversation_without_mistakes_is_parsed_once() -> None:
    assert [one.parts for one in parse(*OLD).messages] == [(Text("A"),), (Text("B"),)]


def test_many_media_are_replaced_at_once_and_each_has_its_warning() -> None:
    parsed = parse(of_user(*[image(f"/{number}.png") for number in range(20)]), *OLD)
    assert len(parsed.warnings) == 20
    assert [part.text[:13] for part in parsed.messages[0].parts if isinstance(part, Text)][:2] == [
        "[image: 0.png",
        "[image: 1.png",
    ]


def test_the_cache_mark_of_a_medium_is_that_of_its_text() -> None:
    mark = {"type": "ephemeral"}
    parsed = parse(of_user({**image("/a.png"), "cache_control": mark}), *OLD)
    [text] = parsed.messages[0].parts
    assert isinstance(text, Text) and text.mark is not None and text.mark.value == mark


def test_a_medium_in_the_form_of_qwen_agent_becomes_a_text() -> None:
    parsed = parse({"role": "user", "content": [{"text": "see"}, {"image": "/tmp/a.png"}]}, *OLD, name="qwen")
    [_, text] = parsed.messages[0].parts
    assert isinstance(text, Text) and text.text.startswith("[image: a.png (not sent: ")
