"""Every case of the corpus through the gateway without sockets, cut in every way and written in every mode."""

import asyncio

import pytest

from tests.conformance.case_runner import CASES, cuttings, differences
from tests.conformance.cases import Json, body_chunks
from tests.each_case import each_case


@each_case("case", CASES, ids=lambda case: case["id"])
def test_a_body_as_it_was_recorded_gives_in_any_reply_mode_what_the_case_expects(case: Json) -> None:
    assert asyncio.run(differences(case, [("recorded", body_chunks(case))])) == []


@pytest.mark.many_cases
@each_case("case", CASES, ids=lambda case: case["id"])
def test_any_cut_of_a_body_in_any_reply_mode_gives_what_the_case_expects(case: Json) -> None:
    assert asyncio.run(differences(case, cuttings(case))) == []
