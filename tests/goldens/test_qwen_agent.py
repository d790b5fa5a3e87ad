"""What Qwen-Agent sends and says, against what this gateway sends and says for the same."""

import asyncio
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.each_case import each_case
from tests.goldens.differences import EXPECTED
from tests.goldens.expectations import Expected, Json
from tests.goldens.golden_runner import FOLDER, Outcome, load_all_verdicts, load_cases, load_verdicts, play, words
from tests.goldens.parity import document

CASES = load_cases()
VERDICTS = load_verdicts()
GENERATED = "<generated>"
UNITS = (
    "cache_key",
    "generate_cfg_merge",
    "is_tool_schema",
    "nous_parse",
    "qwen_parse",
    "schema",
    "stop_words",
    "text_utils",
    "tokenizer",
    "truncation",
)

every_case = each_case("name", CASES)


@cache
def outcome(name: str) -> Outcome:
    return asyncio.run(play(CASES[name]))


def expected(name: str) -> Expected:
    return EXPECTED.get(name, Expected())


def golden_bodies(case: Json) -> list[Json]:
    """What Qwen-Agent sent; where its call failed before that, what the case asks for in so many words."""
    bodies = [exchange["request"]["body"] for exchange in case["upstream"]]
    if not bodies and not expected(case["case"]).error:
        bodies = [{"model": case["llm_cfg"]["model"], "messages": case["messages"], "seed": 42, **_tools(case)}]
    return [_with_constants(body) for body in bodies]


def _tools(case: Json) -> Json:
    functions = case["functions"] if case["llm_cfg"]["generate_cfg"].get("use_raw_api") else None
    return {"tools": [{"type": "function", "function": function} for function in functions]} if functions else {}


def _with_constants(body: Json) -> Json:
    seed = {} if body.get("seed") == "<seed>" else {"seed": body["seed"]}
    rest = {key: value for key, value in body.items() if key != "seed"}
    return {**rest, **seed, "stream": True, "stream_options": {"include_usage": True}}


@every_case
def test_the_model_is_sent_what_qwen_agent_sends_or_what_the_table_says(name: str) -> None:
    want, bodies = expected(name), golden_bodies(CASES[name])
    count = len(bodies) if want.requests is None else want.requests
    assert outcome(name).bodies == [{**body, **want.body} for body in bodies[:count]]


@every_case
def test_the_reply_is_what_qwen_agent_yields_or_what_the_table_says(name: str) -> None:
    want, got = expected(name), outcome(name)
    assert got.refused == want.refused
    if want.error is None and not want.refused:
        assert got.error is None
        assert _same(want.messages if want.messages is not None else _final(name), got.messages)
    elif want.messages is not None:
        assert _same(want.messages, got.messages)
    if want.error is not None:
        assert got.error is not None
        assert want.error.items() <= got.error.items()
    if want.finish_reason is not None:
        assert got.finish_reason == want.finish_reason


@every_case
def test_the_deltas_of_a_stream_add_up_to_its_messages(name: str) -> None:
    deltas = asyncio.run(play({**CASES[name], "stream": True, "delta_stream": True}))
    assert deltas.grown == tuple(words(message) for message in deltas.messages or ())
    if deltas.error is None:  # a message that breaks off is not completed
        assert _same_but_for_ids(deltas.messages, outcome(name).messages)


def _same_but_for_ids(one: list[Json] | None, other: list[Json] | None) -> bool:

    def bare(messages: list[Json] | None) -> list[Json]:
        return [{**message, "extra": {}} for message in messages or ()]

    return bare(one) == bare(other)


def _final(name: str) -> list[Json]:
    return [_normalize(message) for message in CASES[name]["final"]]


def _normalize(message: Json) -> Json:
    """A message without what is empty; a call that the original gave no id, or only counted, has some id."""
    if message.get("function_call") and str(_id(message) or "0").isdecimal():
        message = {**message, "extra": {**message.get("extra", {}), "function_id": GENERATED}}
    return {key: value for key, value in message.items() if value != {}}


def _same(want: list[Json], got: list[Json] | None) -> bool:
    """Equal, but for generated ids: they need only be there, and each its own."""
    ids = [_id(message) for message in got or () if _id(message)]
    return len(ids) == len(set(ids)) and [_masked(message, want) for message in got or ()] == want


def _masked(message: Json, want: list[Json]) -> Json:
    known = {_id(one) for one in want}
    if not _id(message) or _id(message) in known:
        return message
    return {**message, "extra": {**message["extra"], "function_id": GENERATED}}


def _id(message: Json) -> Any:
    return message.get("extra", {}).get("function_id")


@pytest.mark.parametrize("name", ["02_starts_with_assistant_no_trunc", "02_two_systems", "02_empty_messages"])
def test_what_qwen_agent_refuses_reaches_no_server(name: str) -> None:
    assert outcome(name).requests == ()


def test_the_key_and_the_address_are_those_of_the_configuration() -> None:
    request = outcome("09_api_key").requests[0]
    golden = CASES["09_api_key"]["upstream"][0]["request"]
    assert (request.method, request.path) == (golden["method"], golden["path"])
    assert request.headers["authorization"] == golden["headers"]["authorization"]


@every_case
def test_every_difference_has_its_reason(name: str) -> None:
    verdict, want = VERDICTS[name], expected(name)
    if verdict["request"] in ("fix", "policy"):
        assert want.request
    if verdict["output"] in ("fix", "policy"):
        assert want.output
    if want.body or want.requests is not None:
        assert want.request
    if want.messages is not None or want.error or want.refused:
        assert want.output


def test_the_table_names_cases_that_exist() -> None:
    assert set(EXPECTED) <= set(CASES) == set(VERDICTS)


def test_every_golden_stands_on_the_page_or_is_counted_as_equal() -> None:
    page = document()
    names = [path.stem for path in FOLDER.glob("*_*.json")]
    assert {name[:2] for name in names} >= {f"{group:02}" for group in range(1, 14)}
    assert {*load_all_verdicts(), *(f"unit_{unit}" for unit in UNITS)} == set(names)
    (equal,) = re.findall(r"^(\d+) are equal in request and reply", page, re.MULTILINE)
    assert sum(f"`{name}`" in page for name in names) + int(equal) == len(names)


def test_the_page_on_parity_is_what_these_tests_say() -> None:
    page = Path(__file__).parents[2] / "docs/evidence/qwen-agent-parity.md"
    assert page.read_text("utf-8") == document(), "stale: run scripts/parity"
