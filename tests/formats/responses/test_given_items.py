"""The items that a body of Responses has or names."""

from typing import Any

import pytest
from app.errors import NotFound, PreviousResponseNotFound, Violation
from app.formats.body import NOTHING_STORED, StoredItems
from app.formats.responses.given_items import ItemReader, find_conversation, find_references
from app.formats.seal import Seal, write_seal

from tests.each_case import each_case

Json = dict[str, Any]
QUESTION: Json = {"type": "message", "role": "user", "content": "Hi"}
REFERENCE: Json = {"type": "item_reference", "id": "msg_1"}


def make_reader(body: Json, stored: StoredItems = NOTHING_STORED) -> tuple[ItemReader, list[Violation]]:
    """Return a reader and what it refuses."""
    reader = ItemReader(body, stored)
    return reader, reader.violations


def list_paths(violations: list[Violation]) -> list[str]:
    return [violation.path for violation in violations]


@each_case(("given", "id_"), [("conv_1", "conv_1"), ({"id": "conv_1"}, "conv_1"), ({}, None), (5, None), (None, None)])
def test_a_conversation_is_named_by_a_text_or_an_object(given: Any, id_: str | None) -> None:
    assert find_conversation({"conversation": given}) == id_
    assert make_reader({"conversation": given})[0].conversation == id_


def test_a_text_is_a_message_of_the_user() -> None:
    assert make_reader({"input": "Hi"})[0].read_items() == [QUESTION]
    assert make_reader({"input": ""})[0].read_items() == []


@each_case("body", [{}, {"input": 5}, {"messages": []}])
def test_a_body_without_items_is_refused(body: Json) -> None:
    reader, refused = make_reader(body)
    assert (reader.read_items(), list_paths(refused)) == ([], ["input"])


def test_references_are_replaced_by_stored_items() -> None:
    assert find_references([QUESTION, REFERENCE]) == ["msg_1"]
    reader, _ = make_reader({"input": [REFERENCE, QUESTION]}, StoredItems(items={"msg_1": {**QUESTION, "id": "msg_1"}}))
    assert reader.read_items() == [{**QUESTION, "id": "msg_1"}, QUESTION]
    with pytest.raises(NotFound):
        make_reader({"input": [REFERENCE]})[0].read_items()


def test_an_earlier_response_begins_with_its_last_summary() -> None:
    summary = {"type": "compaction", "encrypted_content": write_seal(Seal("They said hi."))}
    system = {"role": "system", "content": "Be brief."}
    stored = StoredItems({"resp_1": [system, QUESTION, summary, QUESTION]})
    assert make_reader({"previous_response_id": "resp_1"}, stored)[0].read_context() == [system, summary, QUESTION]
    with pytest.raises(PreviousResponseNotFound):
        make_reader({"previous_response_id": "resp_2"}, stored)[0].read_context()


def test_a_conversation_needs_a_state_database() -> None:
    reader, refused = make_reader({"conversation": "conv_1"})
    assert (reader.read_context(), list_paths(refused)) == ([], ["conversation"])
