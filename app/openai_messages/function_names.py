"""Names of functions that a server takes, in the place of others.

A name that is sent depends on nothing but the given one, so that the calls in a history have it too. It keeps what it
can of the given name, which says to the model what the function does; a digest keeps it unique.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import cache

from msgspec import Struct

from app.profiles.profile import FunctionNames

_DIGEST_DIGITS = 8


class NameRule(Struct, frozen=True):
    """Which names a server takes."""

    most: int
    """In characters."""
    first: str
    """The first character, for a regular expression, as are the others."""
    others: str
    prefix: str
    """What stands before a name with another first character."""

    def takes(self, names: Sequence[str]) -> bool:
        """Whether the server takes all names, which are read at once: agents offer a hundred of them."""
        joined = "\0".join([*names, ""])
        return joined.count("\0") == len(names) and _compile(self).fullmatch(joined) is not None

    def changes(self, name: str) -> bool:
        return "\0" in name or _compile(self).fullmatch(f"{name}\0") is None

    def make(self, name: str) -> str:
        """Return the name as it is sent."""
        if not self.changes(name):
            return name
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_DIGITS]
        kept = re.sub(f"[^{self.others}]", "_", name)
        if not re.match(f"[{self.first}]", kept):
            kept = self.prefix + kept
        return f"{kept[: self.most - _DIGEST_DIGITS - 1]}_{digest}"


_FORMS: dict[FunctionNames, tuple[str, str, str]] = {
    "plain": ("A-Za-z0-9_-", "A-Za-z0-9_-", ""),
    "letter_first": ("A-Za-z", "A-Za-z0-9_-", "f_"),
    "dotted": ("A-Za-z_", "A-Za-z0-9_.:-", "_"),
}


@cache
def find_name_rule(most: int, form: FunctionNames) -> NameRule:
    return NameRule(most, *_FORMS[form])


@cache
def _compile(rule: NameRule) -> re.Pattern[str]:
    return re.compile(rf"(?:(?:[{rule.first}][{rule.others}]{{0,{rule.most - 1}}})?\0)*")
