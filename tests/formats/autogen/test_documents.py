"""What AutoGen's documents say of each class is what is accepted and refused, but for the differences named here."""

import re

import pytest
from app.chat.messages import Text
from app.formats.autogen import AUTOGEN
from app.formats.base import Options

from tests.formats.autogen.documented_schemas import CLASSES, SCHEMAS, accepts, instance, near
from tests.formats.autogen.recorded_cases import read, refused, text, written

HELLO = text("user", "hello")

ACCEPTED = {
    r"code_blocks left out|retry_attempt left out": "versions before 0.5.4 wrote none",
    r"content\.\*\.arguments = \{\}": "arguments as an object are taken as their JSON text",
    r"(context\.\*\.)?content\.\*\.name (left out|= null)": "versions before 0.4.8 wrote none: the call has it",
    r"created_at = (2\.5|3)": "seconds, which AutoGen's own classes load",
    r"metadata = null": "metadata that are null are none",
    r"(models_usage\.\w+|result\.exit_code|retry_attempt) = true": "AutoGen's own classes load it as 1",
}
"""What the documents refuse and the gateway takes."""

REFUSED = {
    r"(context\.\*\.)?type left out": "the items of a list are told apart by their type",
    r"type = .*": "the documents name no type for StructuredMessage; AutoGen computes it as StructuredMessage[Name]",
    r"content\.\* = .*|content\.\*\.data( left out| = .*)": "the documents say nothing of images; AutoGen loads base64",
    r"content\.\*\.content = (null|2\.5|3|true|\[\])": "the documents say nothing of images; there is no other memory",
    r'content\.\*\.name = ""': "no model server takes a call of no function",
    r'created_at = ("x"|"")': "not a time: the format that the documents name is not checked by JSON schema",
}
"""What the documents take and the gateway refuses."""


def test_every_class_that_the_documents_show_is_here() -> None:
    assert len(CLASSES) == 30
    abstract = {name for schemas in SCHEMAS.values() for name in schemas} - {name for _, name in CLASSES}
    assert all(name.startswith("Base") for name in abstract)


@pytest.mark.parametrize(("version", "name"), CLASSES)
def test_an_item_with_all_that_its_class_has_comes_back_equal(version: str, name: str) -> None:
    item = instance(version, name)
    assert accepts(version, name, item)
    assert written(read([HELLO, item])) == [HELLO, item]


@pytest.mark.parametrize(("version", "name"), CLASSES)
def test_near_misses_are_judged_as_the_documents_judge_them(version: str, name: str) -> None:
    for change, item in near(instance(version, name)):
        taken = not AUTOGEN.parse([HELLO, item], Options()).violations
        if taken != accepts(version, name, item):
            reasons = ACCEPTED if taken else REFUSED
            assert any(re.fullmatch(pattern, change) for pattern in reasons), change


@pytest.mark.parametrize("reasons", [ACCEPTED, REFUSED])
def test_no_difference_is_named_that_does_not_exist(reasons: dict[str, str]) -> None:
    changes = {
        change
        for version, name in CLASSES
        for change, item in near(instance(version, name))
        if accepts(version, name, item) is (reasons is REFUSED)
        and bool(AUTOGEN.parse([HELLO, item], Options()).violations) is (reasons is REFUSED)
    }
    assert all(any(re.fullmatch(pattern, change) for change in changes) for pattern in reasons)


@pytest.mark.parametrize("version", SCHEMAS)
def test_what_only_a_base_class_says_is_no_message(version: str) -> None:
    assert refused([{"source": "agent", "content": "hello"}]) == ["messages[0].type"]
    assert refused([{"type": "BaseChatMessage", "source": "agent", "content": "hello"}]) == ["messages[0].type"]


@pytest.mark.parametrize(
    ("source", "format_string"), [("agent1", None), ("agent", "Hello, {text} {number}!")], ids=["plain", "formatted"]
)
def test_the_structured_messages_of_the_documents_are_their_json(source: str, format_string: str | None) -> None:
    item = {
        "type": "StructuredMessage[MyMessageContent]",
        "source": source,
        "content": {"text": "Hello", "number": 42},
        "format_string": format_string,
    }
    (message,) = read([item], "somebody")
    assert (message.role, message.name) == ("user", source)
    assert message.parts == (Text('{"text":"Hello","number":42}'),)
    assert written(read([item])) == [item]
