"""The numbers of accounts in a text; tests/guards/test_detectors.py has most cases."""

import random

import pytest
from app.runtime.personal_forms import find_cards, find_ibans

from tests.linear_time import linear

CARD, IBAN = "4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00"


@pytest.mark.parametrize("separator", [" ", "-", ", ", "\n", " 12 ", " AB12 ", " 2024 "])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 40])
def test_each_of_several_is_found(separator: str, count: int) -> None:
    cards = separator.join([CARD] * count)
    assert [cards[start:end] for start, end in find_cards(cards)] == [CARD] * count
    if separator != "-":
        ibans = separator.join([IBAN] * count)
        assert [ibans[start:end] for start, end in find_ibans(ibans)] == [IBAN] * count


def test_numbers_in_any_order_hide_none() -> None:
    chance = random.Random(1)
    for _ in range(300):
        words = chance.choices([CARD, IBAN, "12", "2024", "AB12", "x", "1234567890123", "7"], k=12)
        text = " ".join(words)
        found = [text[start:end] for start, end in find_cards(text)]
        assert found.count(CARD) >= words.count(CARD), text
        found = [text[start:end] for start, end in find_ibans(text)]
        assert found.count(IBAN) >= words.count(IBAN), text


@pytest.mark.parametrize("part", ["4111 ", "1", "4", "4-", "AA11", "AA11 ", "DE89 3704 "])
def test_a_search_takes_linear_time(part: str) -> None:
    assert linear(lambda size: [*find_cards(part * size), *find_ibans(part * size)], 20_000)
