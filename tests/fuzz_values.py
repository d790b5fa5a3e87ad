"""Random values for fuzz tests, and what every error must be."""

import json
import re
from typing import Any

from hypothesis import strategies as st

TEXTS = st.one_of(
    st.sampled_from(["", " ", "auto", "f", "\ud800", "\udc00x", "\u2028", "a.b", "<text>", "str", "[0]", "data:,x"]),
    st.text(st.characters(), max_size=8),
)

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([10**30, -(10**30), 2**63, 1e308, float("nan"), float("inf"), -0.0]),
    st.floats(width=16),
    TEXTS,
)

JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8
)


def usually(good: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly what belongs there, sometimes anything."""
    return st.integers(0, 9).flatmap(lambda dice: JSON if dice == 0 else good)


def record(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of these fields, each usually as it should be, and sometimes one that does not exist."""
    known = st.fixed_dictionaries({}, optional={name: usually(value) for name, value in fields.items()})
    return st.builds(lambda a, b: {**a, **b}, known, st.dictionaries(TEXTS, JSON, max_size=1) | st.just({}))


TOOL = record({"name": st.sampled_from(["f", "g"]), "description": TEXTS, "parameters": JSON})

CHOICES = ["auto", "none", "required", "f", {"function": {"name": "f"}}]


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes with a few of them replaced, cut out or said twice."""
    data = draw(whole)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        width = draw(st.integers(0, 12))
        data = data[:at] + draw(st.binary(max_size=4) | st.just(data[at : at + 2 * width])) + data[at + width :]
    return data


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


STEP = re.compile(r"""\.?([A-Za-z_$][\w$-]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]""", re.ASCII)


def steps(path: str) -> list[str | int]:
    """A JSON path taken apart. Fails for one that is malformed."""
    found: list[str | int] = []
    at = 0
    while at < len(path):
        match = STEP.match(path, at)
        assert match, f"malformed path {path!r}"
        name, number, quoted = match.groups()
        found.append(int(number) if number else json.loads(quoted) if quoted else name)
        at = match.end()
    return found


def leads(path: str, value: Any, *, missing: bool) -> bool:
    """Whether the path exists in the value; of a missing key, the object that lacks it or leaves it empty."""
    *way, last = steps(path)
    for step in way:
        if not _has(value, step):
            return False
        value = value[step]
    if missing:
        return isinstance(value, dict) and value.get(str(last)) in (None, "")
    return _has(value, last)


def _has(value: Any, step: str | int) -> bool:
    if isinstance(step, int):
        return isinstance(value, list) and step < len(value)
    return isinstance(value, dict) and step in value


def check_error(error: dict[str, Any], status: int, raw: bytes) -> None:
    assert set(error) - {"violations", "upstream", "retry_after_seconds"} == {
        *("code", "message", "param", "status", "retryable", "request_id")
    }
    assert error["status"] == status < 500 or error["code"] == "cache_miss"
    assert error["message"]
    named = error.get("violations") or [error]
    assert error["param"] == named[0]["param"]
    for one in named:
        if one["param"] is not None:
            missing = "is required" in one["message"]
            assert leads(one["param"], read_body(raw), missing=missing), (one, raw)


def read_body(raw: bytes) -> Any:
    """Return a body as the gateway reads it: with U+FFFD for half a surrogate pair."""
    text = json.dumps(json.loads(raw), ensure_ascii=False)
    return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
