"""Further rules of the detector `secrets`, in the form of gitleaks (github.com/gitleaks/gitleaks, "Configuration"; what
each field does: `detect/detect.go`, `config/allowlist.go`).

Their expressions are those of RE2, which searches a stranger's text in linear time: `re` would not. A text has no path
and no commit, so that what a rule says of these is not used; an exception that demands one is none.
"""

import importlib
import math
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.guards.detectors import Find
from app.guards.rules import Exempted, SecretRule
from app.guards.spans import Span

MAX_RULES = 5_000
_MAX_MEMORY = 4 * 1024 * 1024
"""Of the states that RE2 keeps of one expression."""
_MAX_LINE_BYTES = 4096
"""So much of a line is looked at before and behind a value."""
_TARGETS: dict[str, Literal["secret", "match", "line"]] = {
    "": "secret",
    "secret": "secret",
    "match": "match",
    "line": "line",
}
_CONDITIONS = {"": False, "OR": False, "||": False, "AND": True, "&&": True}
"""Whether all that an exception names must hold."""


class _Allowlist(Struct, frozen=True, forbid_unknown_fields=True):
    description: str = ""
    condition: str = ""
    commits: list[str] = []
    paths: list[str] = []
    regextarget: str = ""
    regexes: list[str] = []
    stopwords: list[str] = []
    targetrules: list[str] = []
    """Of a list for the whole file: the rules that it is for."""


class _Rule(Struct, frozen=True, forbid_unknown_fields=True):
    id: str = ""
    description: str = ""
    path: str = ""
    regex: str = ""
    secretgroup: int = 0
    entropy: float = 0.0
    keywords: list[str] = []
    tags: list[str] = []
    allowlist: _Allowlist | None = None
    """The older form, of one."""
    allowlists: list[_Allowlist] = []


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    title: str = ""
    description: str = ""
    minversion: str = ""
    extend: dict[str, Any] = {}
    rules: list[dict[str, Any]] = []
    allowlist: _Allowlist | None = None
    allowlists: list[_Allowlist] = []


def parse_rules(text: str) -> tuple[tuple[SecretRule, ...], list[str]]:
    """Return the rules of a file, and what is wrong with it. A rule that has only a path is left out."""
    try:
        file = msgspec.convert(_lower_names(tomllib.loads(text)), _File)
    except tomllib.TOMLDecodeError as error:
        return (), [f"it is not valid TOML ({error})"]
    except (msgspec.ValidationError, RecursionError) as error:
        return (), [f"it is not in the form of gitleaks: {error}"]
    if file.extend:
        return (), ["`extend` is not supported: copy the rules of the other file into this one"]
    if len(file.rules) > MAX_RULES:
        return (), [f"it has {len(file.rules)} rules; at most {MAX_RULES} are allowed"]
    rules, mistakes = list[SecretRule](), list[str]()
    for number, row in enumerate(file.rules):
        name = repr(row["id"]) if isinstance(row.get("id"), str) and row["id"] else str(number)
        try:
            rules += _read_rule(msgspec.convert(row, _Rule))
        except (msgspec.ValidationError, ValueError) as error:
            mistakes.append(f"rule {name}: {error}")
    try:
        shared = _join_lists(file.allowlist, file.allowlists)
        rules = _exempt(rules, shared, [str(row.get("id")) for row in file.rules])
    except ValueError as error:
        mistakes.append(f"allowlists: {error}")
    if not rules and not mistakes:
        mistakes.append("it has no rules with a `regex`")
    return tuple(rules), mistakes


def _lower_names(value: Any) -> Any:
    """gitleaks does not look at the case of names."""
    if isinstance(value, dict):
        return {name.lower(): _lower_names(item) for name, item in value.items()}
    return [_lower_names(item) for item in value] if isinstance(value, list) else value


def _read_rule(row: _Rule) -> list[SecretRule]:
    """Return the rule; nothing if it has only a path. Raises ValueError."""
    if not row.id:
        raise ValueError("it has no `id`")
    if not row.regex:
        if not row.path:
            raise ValueError("it has neither `regex` nor `path`")
        return []
    expression = _compile(row.regex)
    if expression.search(b"") is not None:
        raise ValueError("its `regex` matches the empty text")
    if not 0 <= row.secretgroup <= expression.groups:
        raise ValueError(f"`secretGroup` is {row.secretgroup}, but its `regex` has {expression.groups} groups")
    exempted = _read_lists(_join_lists(row.allowlist, row.allowlists))
    keywords = tuple([word.lower() for word in row.keywords if word])
    return [SecretRule(row.id, row.regex, row.secretgroup, row.entropy, keywords, exempted)]


def _join_lists(one: _Allowlist | None, several: Sequence[_Allowlist]) -> list[_Allowlist]:
    if one is not None and several:
        raise ValueError("it has `allowlist` and `allowlists`; use the second")
    return [one, *several] if one is not None else [*several]


def _exempt(rules: Sequence[SecretRule], shared: Sequence[_Allowlist], known: Sequence[str]) -> list[SecretRule]:
    """Return the rules with the exceptions of the file. Raises ValueError."""
    unknown = [name for row in shared for name in row.targetrules if name not in known]
    if unknown:
        raise ValueError(f"`targetRules` names {unknown[0]!r}, which is no rule of the file")
    pairs = [(row.targetrules, _read_lists([row])) for row in shared]
    return [
        replace(
            rule,
            exempted=(
                *rule.exempted,
                *(one for names, lists in pairs if not names or rule.id in names for one in lists),
            ),
        )
        for rule in rules
    ]


def _read_lists(rows: Sequence[_Allowlist]) -> tuple[Exempted, ...]:
    """Return the exceptions that can hold for a text. Raises ValueError."""
    out: list[Exempted] = []
    for row in rows:
        if row.condition.upper() not in _CONDITIONS:
            raise ValueError(f"`condition` is {row.condition!r}, but must be AND or OR")
        if row.regextarget not in _TARGETS:
            raise ValueError(f"`regexTarget` is {row.regextarget!r}, but must be secret, match or line")
        for expression in row.regexes:
            _compile(expression)
        needs_both = _CONDITIONS[row.condition.upper()]
        if (row.regexes or row.stopwords) and not (needs_both and (row.paths or row.commits)):
            words = tuple([word.lower() for word in row.stopwords if word])
            out.append(Exempted(tuple(row.regexes), _TARGETS[row.regextarget], words, needs_both))
    return tuple(out)


def _compile(expression: str) -> Any:
    """Raises ValueError."""
    re2 = importlib.import_module("re2")  # without stubs, and not installed everywhere
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"RE2 does not take the expression {expression[:100]!r} ({text})") from None


def make_rules_find(rules: Sequence[SecretRule]) -> Find:
    """Return what finds the values of these rules in a text."""
    searches = [_Search(rule) for rule in rules]

    def find(text: str) -> Iterator[Span]:
        lowered, data = text.lower(), b""
        for search in searches:
            if search.may_find(lowered):
                data = data or text.encode("utf-8", "replace")
                for start, end in search.find(data):
                    yield Span(start, end, "SECRET")

    return find


class _Search:
    """Searches for the values of one rule."""

    def __init__(self, rule: SecretRule) -> None:
        self._rule = rule
        self._expression = _compile(rule.expression)
        self._exempted = [(one, [_compile(expression) for expression in one.expressions]) for one in rule.exempted]

    def may_find(self, lowered: str) -> bool:
        words = self._rule.keywords
        return not words or any(word in lowered for word in words)

    def find(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield where the values are, in characters."""
        known_bytes = known_characters = 0
        for found in self._expression.finditer(data):
            start, end = self._find_value(found)
            value = data[start:end].decode("utf-8", "replace")
            if not value or self._is_exempted(value, data, found.span()):
                continue
            known_characters += len(data[known_bytes:start].decode("utf-8", "replace"))
            known_bytes = start
            yield known_characters, known_characters + len(value)

    def _find_value(self, found: Any) -> tuple[int, int]:
        if self._rule.group:
            start, end = found.span(self._rule.group)
            return max(0, start), max(0, end)
        spans = [found.span(number) for number in range(1, self._expression.groups + 1)]
        return next(((start, end) for start, end in spans if 0 <= start < end), found.span())

    def _is_exempted(self, value: str, data: bytes, match: tuple[int, int]) -> bool:
        if self._rule.entropy and measure_entropy(value) <= self._rule.entropy:
            return True
        return any(self._holds(one, expressions, value, data, match) for one, expressions in self._exempted)

    def _holds(
        self, one: Exempted, expressions: Sequence[Any], value: str, data: bytes, match: tuple[int, int]
    ) -> bool:
        has_word = any(word in value.lower() for word in one.words)
        if not one.needs_both and has_word:
            return True
        target = value.encode("utf-8", "replace")
        if one.target != "secret":
            target = data[slice(*match)] if one.target == "match" else _find_line(data, *match)
        matches = any(expression.search(target) is not None for expression in expressions)
        if not one.needs_both:
            return matches
        return (has_word or not one.words) and (matches or not expressions)


def _find_line(data: bytes, start: int, end: int) -> bytes:
    first, last = max(0, start - _MAX_LINE_BYTES), min(len(data), end + _MAX_LINE_BYTES)
    begin, stop = data.rfind(b"\n", first, start), data.find(b"\n", end, last)
    return data[begin + 1 if begin >= 0 else first : stop if stop >= 0 else last]


def measure_entropy(text: str) -> float:
    """Return the bits of each character."""
    counts, length = Counter(text), len(text)
    return -sum(count / length * math.log2(count / length) for count in counts.values())
