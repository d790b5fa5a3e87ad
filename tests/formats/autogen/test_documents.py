"""What AutoGen's documents say of each class is what is accepted and refused, but for the differences named here."""

import re
from functools import cache

import pytest
from app.chat.messages import Text
from app.formats.autogen import AUTOGEN
from app.formats.base import Options

from tests.each_case import each_case
from tests.formats.autogen.documented_schemas import CLASSES, SCHEMAS, accepts, instance, near
from tests.formats.autogen.recorded_cases import read, refused, text, written
from tests.formats.autogen.sample_documents import ACCEPTED, REFUSED

HELLO = text("user", "hello")


def test_every_class_that_the_documents_show_is_here() -> None:
    assert len(CLASSES) == 30
    abstract = {name for schemas in SCHEMAS.values() for name in schemas} - {name for _, name in CLASSES}
    assert all(name.startswith("Base") for name in abstract)


@each_case(("version", "name"), CLASSES)
def test_an_item_with_all_that_its_class_has_comes_back_equal(version: str, name: str) -> None:
    item = instance(version, name)
    assert accepts(version, name, item)
    assert written(read([HELLO, item])) == [HELLO, item]


@cache
def judged(version: str, name: str) -> list[tuple[str, bool, bool]]:
    """(a change of an item of the class, whether it is taken then, whether the documents accept it)."""
    return [
        (change, not AUTOGEN.parse([HELLO, item], Options()).violations, accepts(version, name, item))
        for change, item in near(instance(version, name))
    ]


@pytest.mark.many_cases
@each_case(("version", "name"), CLASSES)
def test_near_misses_are_judged_as_the_documents_judge_them(version: str, name: str) -> None:
    for change, taken, accepted in judged(version, name):
        if taken != accepted:
            reasons = ACCEPTED if taken else REFUSED
            assert any(re.fullmatch(pattern, change) for pattern in reasons), change


@pytest.mark.many_cases
@each_case("reasons", [ACCEPTED, REFUSED])
def test_no_difference_is_named_that_does_not_exist(reasons: dict[str, str]) -> None:
    changes = {
        change
        for version, name in CLASSES
        for change, taken, accepted in judged(version, name)
        if accepted is (reasons is REFUSED) and taken is (reasons is ACCEPTED)
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
