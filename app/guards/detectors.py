"""Finds personal data and secrets in a text: `find_spans`.

A value is never a part of a longer word or number. There are no guesses: what is found has a form that only such data
have, and a check digit where there is one.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address
from typing import TypeAlias

from app.guards.spans import Span
from app.runtime.personal_forms import find_cards as find_card_places
from app.runtime.personal_forms import find_ibans as find_iban_places
from app.runtime.secret_forms import find_secrets as find_secret_places
from app.runtime.text_tests import make_text_test

Find: TypeAlias = Callable[[str], Iterable[Span]]

PLACEHOLDER_WORD = re.compile(r"\[?[A-Z_]{2,16}_[A-Z2-7]{8,16}\]?")
# No expression begins with a look behind: so the search for where one may begin is fast.
_LETTERS = r"A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0370-\u052f"
"""Latin, Greek and Cyrillic ones. Texts in other scripts have no blank before an address."""
_LOCAL_PART = re.compile(rf"[{_LETTERS}0-9._%+-]{{1,64}}\Z")
_LABEL = rf"[{_LETTERS}0-9](?:[{_LETTERS}0-9-]{{0,61}}[{_LETTERS}0-9])?"
_DOMAIN = re.compile(rf"(?:{_LABEL}\.){{1,8}}[{_LETTERS}]{{2,24}}(?![{_LETTERS}0-9-])")
_PHONE = re.compile(r"\+[1-9](?:[ ()./-]{0,2}[0-9]){6,14}(?!\w)")
_IPV4 = re.compile(r"[0-9]{1,3}\.(?:[0-9]{1,3}\.){2}[0-9]{1,3}(?!\.?\w)")
_WITHIN_PHONE, _WITHIN_ADDRESS = re.compile(r"[\w+]\Z"), re.compile(r"[\w.:]\Z")
_IPV6 = re.compile(r"[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]{1,37}(?:\.\d{1,3}){0,3}(?![\w:])")

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
    for start, end in find_card_places(text):
        yield Span(start, end, "CARD")


def find_ibans(text: str) -> Iterator[Span]:
    for start, end in find_iban_places(text):
        yield Span(start, end, "IBAN")


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


def choose_spans(text: str, found: Iterable[Span], ignored: Callable[[str], bool]) -> list[list[Span]]:
    """Return groups of spans that do not overlap, in their order. The first span of a group counts: of two, the one
    that starts first, then the longer, then the one that was found first. Those behind it in the group overlap it and
    end later: what they have more belongs to the value, too. A text that looks like a placeholder is no value."""
    groups: list[list[Span]] = []
    end = 0
    for span in sorted(found, key=lambda one: (one.start, -one.end)):
        value = text[span.start : span.end]
        if span.end <= end or ignored(value) or _is_in_placeholder(text, span):
            continue
        if span.start >= end:
            groups.append([])
        groups[-1].append(span)
        end = span.end
    return groups


def _is_in_placeholder(text: str, span: Span) -> bool:
    around = max(0, span.start - 40)
    return any(
        found.start() <= span.start and span.end <= found.end()
        for found in PLACEHOLDER_WORD.finditer(text, around, min(len(text), span.end + 40))
    )
