"""The forms of numbers that name a person's account: payment cards and IBANs, with their check digits.

A value is never a part of a longer word or number. Each search takes linear time.
"""

import re
from collections.abc import Iterator, Sequence

from app.runtime.secret_forms import Place
from app.runtime.text_tests import make_text_test

# No expression begins with a look behind: so the search for where one may begin is fast. The repeat gives nothing back,
# so that a long run of numbers, such as a list of cards, takes no stack.
_DIGITS = re.compile(r"[0-9](?:[ -]?[0-9]){12,}+")
_DIGIT_GROUP = re.compile(r"[0-9]+")
_WITHIN_NUMBER = re.compile(r"(?:\w|[0-9][.,])\Z")
_NUMBER_GOES_ON = re.compile(r"\w|[.,][0-9]")
_CARD_LAYOUTS = {(4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 4, 4, 3), (4, 4, 4, 1), (4, 4, 5)}
"""How the digits of a card are grouped (ISO/IEC 7813 cards of the large networks)."""
_CARD_BEGINNINGS = re.compile(
    r"(?:4\d{12}(?:\d{3}){0,2}"  # Visa: 13, 16, 19
    r"|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|(?:6011|65\d\d|64[4-9]\d)\d{12,15}"  # Discover
    r"|35(?:2[89]|[3-8]\d)\d{12,15}"  # JCB
    r"|3(?:0[0-5]|095|6\d|8\d|9\d)\d{11,16}"  # Diners Club
    r"|62\d{14,17}"  # UnionPay
    r"|(?:5018|5020|5038|5893|6304|6759|676[1-3])\d{9,15})"  # Maestro
)
_IBAN = re.compile(r"[A-Z][A-Z][0-9][0-9](?: ?[A-Z0-9]){11,30}")
_IBAN_COUNTRIES = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 "
    "ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 "
    "LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 "
    "PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 "
    "YE30"
)
_IBAN_LENGTHS = {word[:2]: int(word[2:]) for word in _IBAN_COUNTRIES.split()}
"""The lengths by country, of the IBAN registry of SWIFT."""

MAY_BE_CARD = r"[2-6][0-9]{3}(?:[ -]?[0-9]){9}"
"""Occurs in each text with a card, for `make_text_test`."""
# Two letters of any kind are met often; the engine looks for a number of pairs with vector instructions.
IBAN_TESTS = tuple(f"(?:{'|'.join(sorted(_IBAN_LENGTHS)[half::2])})[0-9]{{2}}(?: ?[A-Z0-9]){{11}}" for half in (0, 1))
"""One of these occurs in each text with an IBAN."""
_may_have_card = make_text_test(MAY_BE_CARD)
_may_have_ibans = tuple(map(make_text_test, IBAN_TESTS))


def find_cards(text: str) -> Iterator[Place]:
    if not _may_have_card(text):
        return
    for run in _DIGITS.finditer(text):
        groups = list(_DIGIT_GROUP.finditer(text, run.start(), run.end()))
        if _WITHIN_NUMBER.search(text, max(0, run.start() - 2), run.start()):
            del groups[0]
        if _NUMBER_GOES_ON.match(text, run.end()):
            del groups[-1:]
        yield from _find_cards_in(groups)


def _find_cards_in(groups: Sequence["re.Match[str]"]) -> Iterator[Place]:
    """Yield the cards among groups of digits: all of them, or some that are grouped as on a card."""
    start = 0
    while start < len(groups):
        end = _find_card_end(groups, start)
        if end:
            yield Place(groups[start].start(), groups[end - 1].end())
        start = end or start + 1


def _find_card_end(groups: Sequence["re.Match[str]"], start: int) -> int:
    """Return behind which group a card that begins with this one ends; 0 if none does."""
    first = groups[start].end() - groups[start].start()
    if first != 4 and first < 13:
        return 0
    for end in range(min(len(groups), start + 5), start, -1):
        chosen = [group.group() for group in groups[start:end]]
        if len(chosen) == 1 or tuple(map(len, chosen)) in _CARD_LAYOUTS:
            digits = "".join(chosen)
            if _CARD_BEGINNINGS.fullmatch(digits) and _passes_luhn(digits):
                return end
    return 0


def _passes_luhn(digits: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def find_ibans(text: str) -> Iterator[Place]:
    if not any(may_have(text) for may_have in _may_have_ibans):
        return
    place = 0
    while (found := _IBAN.search(text, place)) is not None:
        end = 0 if text[max(0, found.start() - 1) : found.start()].isalnum() else _find_iban_end(text, found)
        if end:
            yield Place(found.start(), end)
        place = end or found.start() + 2  # what looks like one may hold the beginning of another


def _find_iban_end(text: str, found: "re.Match[str]") -> int:
    """Return where an IBAN ends that begins here; 0 if it is none."""
    length, number, place = _IBAN_LENGTHS.get(found.group()[:2], 99), "", found.start()
    while len(number) < length and place < found.end():
        number += text[place].strip()
        place += 1
    if len(number) < length or text[place : place + 1].isalnum():
        return 0
    moved = number[4:] + number[:4]
    return place if int("".join(str(int(char, 36)) for char in moved)) % 97 == 1 else 0
