"""What a newcomer reads who sends a mistaken request: every message, on every endpoint, as a page."""

from tests.api.mistaken_requests import BARE, BODIES, HEADERS, MISTAKES, PATHS, read_page, write_page


def test_every_mistake_is_answered_as_the_page_says() -> None:
    assert write_page() == read_page()


def test_every_mistake_is_sent_to_every_endpoint() -> None:
    assert {name for name, bodies in MISTAKES.items() if bodies.keys() != PATHS.keys()} == set()
    assert BODIES.keys() == PATHS.keys()
    assert len(MISTAKES) + len(HEADERS) > 66


def test_every_refusal_says_what_to_do() -> None:
    refusals = [line.strip() for line in read_page().split("\n") if line.startswith("    4")]
    assert len(refusals) > 100
    assert [line for line in refusals if BARE.search(line)] == []
