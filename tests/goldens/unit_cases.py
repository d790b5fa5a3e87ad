"""Single functions of Qwen-Agent, entry by entry: which differ here, and why. The tables are those of the tests."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.formats import recorded_functions as functions
from tests.formats.qwen import recorded_schema as schema
from tests.goldens import cached_calls as cached
from tests.recorded_token_counts import UNITS as COUNTS
from tests.steps.media import recorded_media as media
from tests.steps.prompted_tools import recorded_units as fncall
from tests.steps.real_ranks import DIFFERENT_BY_RANKS
from tests.steps.recorded_stop_words import CUT_OTHERWISE, MERGED_OTHERWISE, MERGES
from tests.steps.recorded_stop_words import UNITS as STOPS
from tests.steps.recorded_truncations import CASES as TRUNCATIONS
from tests.steps.recorded_truncations import DIFFERENT, name_of

Json = dict[str, Any]
Entry = tuple[str, str]
"""Its name, and why it differs: blank where it does not."""
BY_WORDS = (
    "the messages that remain when a conversation is truncated; each word counts as one token, and a call as 14 more"
)
BY_RANKS = "the same, with tokens counted by the package's own ranks (`utils/qwen.tiktoken`)"
INNER = "the original's inner function, there is none here: its cases are those of the whole text"


@dataclass(frozen=True, slots=True)
class Unit:
    file: str
    about: str
    entries: list[Entry]

    @property
    def equal(self) -> int:
        return sum(not reason for _, reason in self.entries)


def units() -> list[Unit]:
    return [
        Unit("unit_nous_parse", "parsing of a reply to the nous prompt", list(_nous(fncall.ALL_UNITS))),
        Unit("unit_qwen_parse", "parsing of a reply to the qwen prompt", list(_qwen(fncall.QWEN_UNITS))),
        Unit("unit_truncation", BY_WORDS, list(_cut(TRUNCATIONS))),
        Unit("unit_truncation, by ranks", BY_RANKS, list(_cut_by_ranks(TRUNCATIONS))),
        Unit("unit_stop_words", "where text is cut by stop words", [_stopped(case) for case in STOPS]),
        Unit("unit_tokenizer", "the counting and shortening of texts", [(case["text"], "") for case in COUNTS]),
        Unit(
            "unit_generate_cfg_merge",
            "merging a model's parameters with a caller's",
            [_merged(case) for case in MERGES],
        ),
        Unit("unit_cache_key", "which conversations share a reply", list(_keyed(cached.load_keys()))),
        Unit("unit_schema", "which messages are accepted", [_taken(case) for case in schema.CASES]),
        Unit("unit_is_tool_schema", "which functions are accepted", [_function(case) for case in functions.CASES]),
        Unit(
            "unit_text_utils",
            "the names of media, and their description in the text",
            [_media(case) for case in media.UNITS],
        ),
    ]


def _nous(cases: Iterable[Json]) -> Iterable[Entry]:
    for case in cases:
        if "thought_in_content" not in case:
            yield case["text"], INNER
        else:
            name = case["name"] + (" after a thought" if case["thought_in_content"] else "")
            yield name, fncall.expected(case)[1]


def _qwen(cases: Iterable[Json]) -> Iterable[Entry]:
    for case in cases:
        how = [case["function_choice"] if case["function_choice"] != "auto" else "", "parallel" * case["parallel"]]
        yield ", ".join(filter(None, [case["text"], *how])), fncall.expected_by_qwen(case)[1]


def _cut(cases: Iterable[Json]) -> Iterable[Entry]:
    for case in cases:
        yield name_of(case), DIFFERENT.get((case["name"], case["max_tokens"]), ("", ""))[1]


def _cut_by_ranks(cases: Iterable[Json]) -> Iterable[Entry]:
    for case in cases:
        yield name_of(case), DIFFERENT_BY_RANKS.get(name_of(case), "")


def _stopped(case: Json) -> Entry:
    name = "+".join(case["texts"])
    return name, CUT_OTHERWISE.get(name, ("", ""))[1]


def _merged(case: Json) -> Entry:
    name = json.dumps(case["new"])
    return name, MERGED_OTHERWISE.get(name, ([], ""))[1]


def _keyed(cases: Iterable[Json]) -> Iterable[Entry]:
    reasons = {place: reason for reason, place in cached.KEYS.items()}
    for place, case in enumerate(cases):
        yield case["key"], reasons.get(place, "")


def _taken(case: Json) -> Entry:
    return case["name"], schema.STRICTER.get(case["name"], ("", ""))[1]


def _function(case: Json) -> Entry:
    return json.dumps(case["input"]), functions.why_different(case)


def _media(case: Json) -> Entry:
    if isinstance(case["input"], str):
        return f"{case['fn']} {case['input']!r}", media.why_different(case)
    messages = case["input"] if isinstance(case["input"], list) else [case["input"]]
    texts = ", ".join(f"{message['role']}: {json.dumps(message['content'])}" for message in messages)
    return f"{case['fn']} of {texts}", media.why_different(case)
