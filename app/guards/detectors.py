"""Finds personal data and secrets in a text: `find_spans`.

A value is never a part of a longer word or number. There are no guesses: what is found has a form that only such data
have, and a check digit where there is one.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import ip_address
from typing import TypeAlias

from msgspec import Struct

from app.runtime.secret_forms import find_secrets as find_secret_places
from app.runtime.text_tests import make_text_test


class Span(Struct, frozen=True):
    """Where a value is in a text."""

    start: int
    end: int
    kind: str


Find: TypeAlias = Callable[[str], Iterable[Span]]

PLACEHOLDER_WORD = re.compile(r"\[?[A-Z_]{2,16}_[A-Z2-7]{8,16}\]?")
# No expression begins with a look behind: so the search for where one may begin is fast.
_LOCAL_PART = re.compile(r"[A-Za-z0-9._%+-]{1,64}\Z")
_DOMAIN = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9-])")
_DIGITS = re.compile(r"[0-9](?:[ -]?[0-9]){12,60}")
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
_PHONE = re.compile(r"\+[1-9](?:[ ()./-]{0,2}[0-9]){6,14}(?!\w)")
_IPV4 = re.compile(r"[0-9]{1,3}\.(?:[0-9]{1,3}\.){2}[0-9]{1,3}(?!\.?\w)")
_WITHIN_PHONE, _WITHIN_ADDRESS = re.compile(r"[\w+]\Z"), re.compile(r"[\w.:]\Z")
_IPV6 = re.compile(r"[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]{1,37}(?:\.\d{1,3}){0,3}(?![\w:])")

_may_have_card = make_text_test(r"[2-6][0-9]{3}(?:[ -]?[0-9]){9}")
_may_have_iban = make_text_test(r"[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11}")
_may_have_phone = make_text_test(r"\+[1-9](?:[ ()./-]{0,2}[0-9]){6}")
_ADDRESSES = (
    (make_text_test(r"[0-9]\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]"), _IPV4),
    (make_text_test(r":[0-9A-Fa-f]{0,4}:"), _IPV6),
)


def find_emails(text: str) -> Iterator[Span]:
    at = text.find("@")
    while at >= 0:
        domain = _DOMAIN.match(text, at + 1)
        local = None if domain is None else _LOCAL_PART.search(text, max(0, at - 64), at)
        if domain is not None and local is not None:
            yield Span(local.start(), domain.end(), "EMAIL")
        at = text.find("@", at + 1)


def find_cards(text: str) -> Iterator[Span]:
    if not _may_have_card(text):
        return
    for run in _DIGITS.finditer(text):
        groups = list(_DIGIT_GROUP.finditer(text, run.start(), run.end()))
        if _WITHIN_NUMBER.search(text, max(0, run.start() - 2), run.start()):
            del groups[0]
        if _NUMBER_GOES_ON.match(text, run.end()):
            del groups[-1:]
        yield from _find_cards_in(groups)


def _find_cards_in(groups: Sequence["re.Match[str]"]) -> Iterator[Span]:
    """Yield the cards among groups of digits: all of them, or some that are grouped as on a card."""
    start = 0
    while start < len(groups):
        end = _find_card_end(groups, start)
        if end:
            yield Span(groups[start].start(), groups[end - 1].end(), "CARD")
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


def find_ibans(text: str) -> Iterator[Span]:
    if not _may_have_iban(text):
        return
    for found in _IBAN.finditer(text):
        end = 0 if text[max(0, found.start() - 1) : found.start()].isalnum() else _find_iban_end(text, found)
        if end:
            yield Span(found.start(), end, "IBAN")


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


def find_phones(text: str) -> Iterator[Span]:
    if _may_have_phone(text):
        for found in _PHONE.finditer(text):
            if not _WITHIN_PHONE.search(text, max(0, found.start() - 1), found.start()):
                yield Span(found.start(), found.end(), "PHONE")


def find_ips(text: str) -> Iterator[Span]:
    for may_have, expression in _ADDRESSES:
        for found in expression.finditer(text) if may_have(text) else ():
            if _is_public(found.group()) and not _WITHIN_ADDRESS.search(text, max(0, found.start() - 1), found.start()):
                yield Span(found.start(), found.end(), "IP")


def _is_public(text: str) -> bool:
    if len(text) < 7:
        return False
    try:
        return ip_address(text).is_global
    except ValueError:
        return False


def find_secrets(text: str) -> Iterator[Span]:
    for start, end in find_secret_places(text):
        if len(set(text[start:end][-12:])) > 3:  # `sk-xxxxxxxx` stands for a key
            yield Span(start, end, "SECRET")


DETECTORS: dict[str, Find] = {
    "email": find_emails,
    "card": find_cards,
    "iban": find_ibans,
    "phone": find_phones,
    "ip": find_ips,
    "secrets": find_secrets,
}


def make_pattern(kind: str, expression: str) -> Find:
    """Return what finds a pattern of the operator. Its first group, if it has one, is the value."""
    compiled = re.compile(expression)
    group = 1 if compiled.groups else 0

    def find(text: str) -> Iterator[Span]:
        for found in compiled.finditer(text):
            start, end = found.span(group)
            if start < end:
                yield Span(start, end, kind)

    return find


def choose_spans(text: str, found: Iterable[Span], ignored: Callable[[str], bool]) -> list[Span]:
    """Return spans that do not overlap, in their order: of two, the one that starts first, then the longer, then the
    one that was found first. A text that looks like a placeholder is no value."""
    chosen: list[Span] = []
    end = 0
    for span in sorted(found, key=lambda one: (one.start, -one.end)):
        value = text[span.start : span.end]
        if span.start >= end and not ignored(value) and not _is_in_placeholder(text, span):
            chosen.append(span)
            end = span.end
    return chosen


def _is_in_placeholder(text: str, span: Span) -> bool:
    around = max(0, span.start - 40)
    return any(
        found.start() <= span.start and span.end <= found.end()
        for found in PLACEHOLDER_WORD.finditer(text, around, min(len(text), span.end + 40))
    )
