"""`make_bytes_test`: a fast test whether bytes of JSON may hold what must not be kept.

It looks at the bytes as they are, without reading the JSON, and takes 1.3 ns a byte. Where it finds nothing, nothing
would be found in the strings of the JSON either; where it finds something, they are read.
"""

import json
from collections.abc import Callable, Sequence
from typing import TypeAlias

from app.runtime.personal_forms import IBAN_TESTS, MAY_BE_CARD
from app.runtime.secret_forms import SECRET_FORMS
from app.runtime.text_tests import join_words
from app.runtime.text_tests import make_bytes_test as make_test

BytesTest: TypeAlias = Callable[[bytes], bool]

_ESCAPE = r"\\(?:u00(?:2[^267]|3[^ceCE]|[4-7])|/)"
"""An escape of a character that a value may have. Those of others, such as `<`, are not read as a part of one."""
_CARDS = (rf"(?-u:\b){MAY_BE_CARD}", rf"(?:\\[nrtbf]|\\u[0-9a-fA-F]{{4}}){MAY_BE_CARD}")
"""A number within a word, such as that in an id of a call, is none. One expression would take three times as long."""
_EMAIL = r'@[^@\s"]+\.[A-Za-z]{2}'
_DATA = ";base64,"
_URL = "://"
_DATA_BLOCK = 2048
"""A text of data is twice as long, so one of these blocks lies in it."""


def make_bytes_test(forms: Sequence[str], *, personal: bool) -> BytesTest:
    """Return the test for `make_finder` with the same arguments."""
    written = {json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in forms for ascii_only in (True, False)}
    plain = [*join_words(written), f"PRIVATE KEY|{_DATA}|{_ESCAPE}"]  # a pass over the bytes costs more than a word
    plain += [_EMAIL, *IBAN_TESTS] if personal else []
    # Most texts have URLs, so what follows them is looked for at once.
    plain += [form.test for form in SECRET_FORMS if _URL in form.keywords]
    tests = list(map(make_test, plain))
    rare = [form for form in SECRET_FORMS if _URL not in form.keywords]
    words = list(map(make_test, join_words(word for form in rare for word in form.keywords)))
    rare_tests = [make_test(form.test) for form in rare]
    has_number, card_tests = make_test(MAY_BE_CARD), list(map(make_test, _CARDS))  # these take ten times as long

    def test(data: bytes) -> bool:
        if not data.isascii() and not _is_text(data):
            return True
        if any([matches(data) for matches in tests]) or _may_have_data(data):
            return True
        if personal and has_number(data) and any(matches(data) for matches in card_tests):
            return True
        return any([matches(data) for matches in words]) and any(matches(data) for matches in rare_tests)

    return test


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _may_have_data(data: bytes) -> bool:
    """Whether a long part has neither a quote nor a space."""
    return any(
        data.find(b'"', start, start + _DATA_BLOCK) < 0 and data.find(b" ", start, start + _DATA_BLOCK) < 0
        for start in range(0, len(data) - _DATA_BLOCK, _DATA_BLOCK)
    )
