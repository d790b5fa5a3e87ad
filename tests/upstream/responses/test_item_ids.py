"""The ids of items in the events of a server that gives an item more than one."""

import json
from typing import Any

from app.upstream.responses.item_ids import set_item_id, set_output_ids


def read(text: str) -> Any:
    return json.loads(text)


def test_a_delta_has_the_id_with_which_its_item_began() -> None:
    event = {"type": "response.output_text.delta", "item_id": "b", "delta": "x"}
    assert read(set_item_id(json.dumps(event), "a")) == {**event, "item_id": "a"}


def test_a_delta_without_an_id_gets_one() -> None:
    event = {"type": "response.output_text.delta", "delta": "x"}
    assert read(set_item_id(json.dumps(event), "a")) == {**event, "item_id": "a"}


def test_the_end_of_an_item_has_its_id_and_no_other_field() -> None:
    event = {"type": "response.output_item.done", "item": {"id": "b", "type": "message"}}
    assert read(set_item_id(json.dumps(event), "a")) == {**event, "item": {"id": "a", "type": "message"}}


def test_half_a_surrogate_pair_stays_what_it_is() -> None:
    event = {"type": "response.output_text.delta", "item_id": "b", "delta": "\ud83d"}
    assert read(set_item_id(json.dumps(event), "a")) == {**event, "item_id": "a"}


def test_the_output_has_the_ids_that_are_given_and_its_own_where_none_is() -> None:
    output = [{"id": "x", "type": "reasoning"}, {"id": "y", "type": "message"}]
    event = {"type": "response.completed", "response": {"id": "r", "output": output}}
    answer = read(set_output_ids(json.dumps(event), ("", "a")))
    assert answer == {**event, "response": {"id": "r", "output": [output[0], {"id": "a", "type": "message"}]}}
