"""The golden cases of guards and masking, as they are and with each text cut at every character."""

import json
from typing import Any

import pytest

from tests.guards.golden_runner import Got, Json, Run, list_cases, load, run_case

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("name", list_cases())
def test_a_golden_case_holds(name: str) -> None:
    case = load(name)
    _check(case, run_case(case), timed=True)


@pytest.mark.parametrize("name", list_cases())
def test_a_golden_case_holds_with_each_text_cut_at_every_character(name: str) -> None:
    case = load(name)
    _check(case, run_case(case, _cut), timed=False)


def _cut(chunks: list[Json]) -> list[Json]:
    out: list[Json] = []
    for delta in chunks:
        names = [key for key in ("content", "reasoning_content") if isinstance(delta.get(key), str)]
        out += [{key: char} for key in names for char in delta[key]] if names else [delta]
    return out


def _check(case: Json, run: Run, *, timed: bool) -> None:
    expect = case["expect"]
    for name, wanted in expect["webhooks"].items():
        _check_webhook(wanted, run.played.asked.get(name, []))
    _check_upstream(expect["upstream"], run.played.sent)
    if "mcp" in expect:
        assert run.tool_calls == expect["mcp"]
    for wanted, got in zip(expect["client"], run.clients, strict=True):
        _check_client(wanted, got, timed=timed)


def _check_webhook(wanted: list[Json], calls: list[Json]) -> None:
    left = list(calls)
    for one in wanted:
        found = next((call for call in left if _is_call(one, call)), None)
        assert found is not None, (one, left)
        left.remove(found)
    assert not left, left


def _is_call(wanted: Json, call: Json) -> bool:
    if "path" in wanted and wanted["path"] != call["path"]:
        return False
    body = call["body"]
    if any(name in body for name in wanted.get("absent", ())):
        return False
    return all(_strip(body.get(name)) == _strip(value) for name, value in wanted.get("body", {}).items())


def _strip(value: Any) -> Any:
    """Return a value without the white space that is free: at the ends of texts, and within arguments."""
    if isinstance(value, str) and value.startswith("{"):
        return json.loads(value)
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return [_strip(item) for item in value]
    if isinstance(value, dict):
        return {name: _strip(item) for name, item in value.items()}
    return value


def _check_upstream(wanted: list[Json], sent: list[Json]) -> None:
    assert len(sent) == len(wanted), sent
    for one, body in zip(wanted, sent, strict=True):
        if "messages" in one:
            assert list(map(_normalize, _strip(body["messages"]))) == list(map(_normalize, _strip(one["messages"])))
        objects = list(_list_objects(body))
        for item in one.get("contains", ()):
            assert item in objects, (item, body)


def _normalize(message: Json) -> Json:
    return {name: value for name, value in message.items() if not (name == "content" and not value)}


def _list_objects(value: Any) -> Any:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _list_objects(item)
    elif isinstance(value, list):
        for item in value:
            yield from _list_objects(item)


def _check_client(wanted: Json, got: Got, *, timed: bool) -> None:
    answer = got.answer
    assert answer.status == wanted["status"], answer.body
    for name, value in wanted.get("headers", {}).items():
        given = answer.headers[name]
        assert (
            given == value
            or (value == "<number>" and given.isdigit())
            or (value.startswith("<contains:") and value[10:-1] in given)
        )
    if "error" in wanted:
        _check_fields(wanted["error"], answer.json["error"])
    if "json" in wanted:
        _check_fields(wanted["json"], answer.json)
    for name in ("text", "reasoning", "refusal", "calls", "end"):
        if name in wanted:
            assert got.reply is not None
            found = getattr(got.reply, name)
            assert (found.strip() if isinstance(found, str) else found) == (
                wanted[name].strip() if isinstance(wanted[name], str) else wanted[name]
            ), name
    if "tail" in wanted:
        assert got.reply is not None
        for frame, fields in zip(got.reply.frames[-len(wanted["tail"]) :], wanted["tail"], strict=True):
            _check_fields(fields, frame)
    for text in wanted.get("never", ()):
        assert text.encode() not in answer.body
        assert got.reply is None or text not in got.reply.text + got.reply.reasoning
    if timed:
        _check_times(wanted, got)


def _check_fields(wanted: Any, found: Any) -> None:
    if isinstance(wanted, dict):
        for name, value in wanted.items():
            _check_fields(value, found[name])
    elif isinstance(wanted, list):
        assert len(wanted) == len(found)
        for one, other in zip(wanted, found, strict=True):
            _check_fields(one, other)
    elif wanted == "<number>":
        assert isinstance(found, int)
    else:
        assert wanted == found


def _check_times(wanted: Json, got: Got) -> None:
    for row in wanted.get("by", ()):
        early = b"".join(data for chunk, _, data in got.pieces if chunk <= row["chunk"])
        assert row["text"] in _join_texts(early), row
    for row in wanted.get("not_before", ()):
        early = b"".join(
            data for chunk, ended, data in got.pieces if not ended and (row["chunk"] == "end" or chunk <= row["chunk"])
        )
        assert row["text"] not in _join_texts(early), row


def _join_texts(data: bytes) -> str:
    texts: list[str] = []
    for line in data.decode().split("\n"):
        if line.startswith("data: {"):
            frame = json.loads(line[6:])
            delta = (frame.get("choices") or [{}])[0].get("delta", frame.get("delta", ""))
            texts.append(
                delta
                if isinstance(delta, str)
                else delta.get("content") or delta.get("text") or delta.get("reasoning_content") or ""
            )
    return "".join(texts)
