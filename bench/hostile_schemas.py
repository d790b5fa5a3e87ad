"""Schemas and values whose check would take minutes in most validators, and the time that they take here.

    python -m bench.hostile_schemas [UNITS]
    python -m bench.hostile_schemas --random COUNT [UNITS]    # made up from the numbers 0 to COUNT, the slowest last

Each check has so many units of work (200,000, as with `check_output = "enforce"`: docs/guides/structured-output.md says
that this is some 2 s). A line has the CPU seconds for the schema, those for the value, and how it ended.
"""

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from app.steps.json_schema import Unchecked, prepare_schema, validate

Case = tuple[str, Any, Any]
UNITS = 200_000
TEXT = "x" * 1_000_000


def make_chain(depth: int, last: Any, keyword: str = "allOf", **more: Any) -> dict[str, Any]:
    """A schema that applies `last` as often as 2 to the power of the depth."""
    parts = {f"x{n}": {keyword: [{"$ref": f"#/$defs/x{n + 1}"}] * 2, **more} for n in range(depth)}
    return {"$ref": "#/$defs/x0", "$defs": {**parts, f"x{depth}": last}}


def nest(depth: int, inner: Any, wrap: Any) -> Any:
    for _ in range(depth):
        inner = wrap(inner)
    return inner


def list_references() -> Iterator[Case]:
    rows = {"a": [[n] for n in range(20_000)]}
    for keyword in ("allOf", "anyOf", "oneOf"):
        for unevaluated in ("unevaluatedProperties", "unevaluatedItems", ""):
            more = {unevaluated: False} if unevaluated else {}
            yield f"{keyword} 2^30 {unevaluated}", make_chain(30, {"properties": {"a": {}}}, keyword, **more), rows
            yield (
                f"{keyword} 2^30 {unevaluated} of a list",
                make_chain(30, {"type": "array"}, keyword, **more),
                [1] * 9999,
            )
    yield "if 2^30", {"$ref": "#/$defs/x0", "$defs": {
        **{f"x{n}": {"if": {"$ref": f"#/$defs/x{n + 1}"}, "then": {"$ref": f"#/$defs/x{n + 1}"}} for n in range(30)},
        "x30": {"unevaluatedProperties": False, "properties": {"a": {}}},
    }}, rows  # fmt: skip
    yield "a loop of references", {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, 1
    yield "a loop below unevaluatedProperties", {"$ref": "#", "unevaluatedProperties": False}, {"a": 1}
    deep = nest(150, {"type": "integer"}, lambda inner: {"$defs": {"a": inner}})
    yield "a path of 150 steps", {"items": {"$ref": "#" + "/$defs/a" * 150}, **deep}, [1] * 100_000
    yield "an anchor in a large schema", {
        "items": {"$ref": "#x"}, "$defs": {"x": {"$anchor": "x"}, **{f"d{n}": {"title": "t"} for n in range(9000)}}
    }, [1] * 100_000  # fmt: skip
    yield "dynamic references through many documents", {
        "$id": "http://a.test/0", "$dynamicAnchor": "x", "properties": {"a": {"$ref": "http://a.test/1"}},
        "$defs": {f"d{n}": {"$id": f"http://a.test/{n}", "$dynamicAnchor": "x", "properties": {
            "a": {"$ref": f"http://a.test/{n + 1}"}, "b": {"items": {"$dynamicRef": "#x"}}}} for n in range(1, 60)},
    }, nest(50, {"b": [{}] * 20_000}, lambda inner: {"a": inner})  # fmt: skip
    yield "recursive references", {
        "$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveAnchor": True,
        "properties": {"a": {"$recursiveRef": "#"}}, "items": {"$recursiveRef": "#"}, "unevaluatedProperties": False,
    }, nest(100, [[]] * 30_000, lambda inner: {"a": inner})  # fmt: skip


def list_messages() -> Iterator[Case]:
    values = [("a long text", TEXT), ("a long list", list(range(100_000))), ("long texts", [TEXT[:10_000]] * 100)]
    for words, value in values:
        yield f"40,000 times false for {words}", {"anyOf": [False] * 40_000}, value
        yield f"15,000 types for {words}", {"anyOf": [{"type": "null"}] * 15_000}, value
        yield f"15,000 times not for {words}", {"anyOf": [{"not": {}}] * 15_000}, value
        yield f"10,000 constants for {words}", {"oneOf": [{"const": "y" * 10}] * 10_000}, value
        yield f"all valid for {words}", {"oneOf": [{"title": "y" * 2}] * 10_000}, value
        yield f"false for each of {words}", {"not": {"items": False}, "items": {"enum": ["y" * 1000] * 200}}, value
    yield "a long name is required", {"anyOf": [{"required": ["y" * 200_000]}] * 2, "items": {}}, {}
    yield "dependencies of a long name", {
        "anyOf": [{"dependentRequired": {"y" * 100_000: [f"{n}" for n in range(9000)]}}] * 1
    }, {"y" * 100_000: 1}  # fmt: skip
    yield "violations far below", {
        "anyOf": [nest(150, {"items": {"type": "string"}}, lambda inner: {"properties": {"a": inner}})]
    }, nest(150, list(range(100_000)), lambda inner: {"a": inner})  # fmt: skip
    yield "unevaluated items with long texts", {"not": {"unevaluatedItems": False}}, [TEXT[:1000]] * 900


def list_members() -> Iterator[Case]:
    many = list(range(100_000))
    names = {f"n{n}": n for n in range(50_000)}
    yield "20,000 unknown keywords", {"items": {f"k{n}": 0 for n in range(20_000)}}, many
    yield "20,000 properties", {"items": {"properties": {f"k{n}": True for n in range(15_000)}}}, [{}] * 50_000
    yield "20,000 alternatives", {"items": {"anyOf": [{}] * 40_000}}, many
    yield "prefixItems and unevaluatedItems", {"prefixItems": [True] * 30_000, "unevaluatedItems": False}, many
    yield "contains and unevaluatedItems", {"contains": {"minimum": 50_000}, "unevaluatedItems": False}, many
    yield "unevaluatedProperties of many", {"properties": dict.fromkeys(names), "unevaluatedProperties": False} | {
        "properties": {name: True for name in list(names)[:15_000]}
    }, names  # fmt: skip
    yield "pattern properties and unevaluatedProperties", {
        "patternProperties": {f"^n{n}": {} for n in range(2000)}, "unevaluatedProperties": False
    }, names  # fmt: skip
    yield "an enum of large values", {"items": {"enum": [[0] * 1000 + [n] for n in range(100)]}}, [[0] * 1001] * 100
    yield "unique numbers of one hash", {"uniqueItems": True}, [n * (2**61 - 1) for n in range(40_000)]
    yield "unique pairs", {"uniqueItems": True}, [[n, {"a": n}] for n in range(30_000)]
    yield "multiples of long numbers", {"items": {"multipleOf": 10**4000 + 1}}, [10**4200 + n for n in range(200)]
    yield "multiples of a small number", {"items": {"multipleOf": 1e-300}}, [10**300 + n for n in range(3000)]
    yield "dependent schemas", {"items": {"dependentSchemas": {f"k{n}": False for n in range(15_000)}}}, [{}] * 50_000
    yield "names", {"propertyNames": {"anyOf": [{"maxLength": 1}] * 10 + [{}]}}, names


def list_patterns() -> Iterator[Case]:
    yield "nested repetition", {"pattern": "^(a+)+$"}, "a" * 1_000_000 + "!"
    yield "a large pattern", {"pattern": r"(\w{10}y?){19}$"}, TEXT
    yield "many patterns", {"anyOf": [{"pattern": f"^(a|b){{{n}}}c$"} for n in range(1, 900)]}, "ab" * 500_000
    yield (
        "patterns of names",
        {"items": {"patternProperties": {f"a{{{n}}}$": False for n in range(1, 300)}}},
        [{"b" * 1000: 1}] * 1000,
    )
    yield "a pattern for each item", {"items": {"pattern": r"^(\w+\s?)*$"}}, ["word " * 20 + "!"] * 8000


def list_drafts() -> Iterator[Case]:
    for draft in ("draft-03/schema#", "draft-04/schema#", "draft-07/schema#"):
        name = {"$schema": f"http://json-schema.org/{draft}"}
        yield (
            f"dependencies, {draft}",
            {**name, "items": {"dependencies": {"a": [f"{n}" for n in range(20_000)]}}},
            [{"a": 1}] * 5000,
        )
    old = {"$schema": "http://json-schema.org/draft-03/schema#"}
    yield "a type of types", {**old, "items": {"type": [{"type": "null"}] * 9000}}, list(range(50_000))
    yield "disallowed types", {**old, "items": {"disallow": [{"type": "null"}] * 9000}}, list(range(50_000))
    yield "enum of equal objects in draft 4", {
        "$schema": "http://json-schema.org/draft-04/schema#", "enum": [{"a": n} for n in range(20_000)]
    }, 1  # fmt: skip


def list_cases() -> Iterator[Case]:
    for make in (list_references, list_messages, list_members, list_patterns, list_drafts):
        yield from make()


PATTERNS = ("^(a+)+$", "(a|aa)*b", "x{50}", r"^(\w+\s?)*$", "(?=a)a", "[", r"\p{L}+", "^n", "(a?){25}a{25}")
KEYWORDS = ("allOf", "anyOf", "oneOf")
DRAFTS = ("draft/2020-12/schema", "draft/2019-09/schema", "draft-07/schema#", "draft-04/schema#", "draft-03/schema#")


def make_random_value(roll: random.Random, depth: int = 0) -> Any:
    """A value with the names and texts of the random schemas."""
    kind = roll.randrange(8 if depth < 5 else 5)
    if kind == 0:
        return roll.choice([None, True, False, 0, 1, 1.0, -0.0, 1e300, 10**40, 10**4000])
    if kind == 1:
        return roll.choice("abnx") * int(10 ** roll.uniform(0, 5)) + roll.choice(["", "!", "\ud83d\ude00", "é"])
    if kind <= 3:
        return [roll.choice([n, n % 2, [n], {"a": n}, f"n{n}"]) for n in range(int(10 ** roll.uniform(0, 4)))]
    if kind == 4:
        return {f"n{n}": n for n in range(int(10 ** roll.uniform(0, 4)))}
    if kind <= 6:
        return {roll.choice("abcd"): make_random_value(roll, depth + 1) for _ in range(3)}
    return [make_random_value(roll, depth + 1) for _ in range(roll.randrange(1, 6))]


def make_random_schema(roll: random.Random, depth: int = 0) -> Any:
    """A schema of up to five levels, with references to itself and to definitions that `make_random_case` adds."""
    if depth > 4 or roll.random() < 0.15:
        return roll.choice(
            [
                True,
                False,
                {},
                {"type": "integer"},
                {"type": ["null", "string"]},
                {"$ref": f"#/$defs/d{roll.randrange(4)}"},
            ]
        )

    def inner() -> Any:
        return make_random_schema(roll, depth + 1)

    def several() -> list[Any]:
        return [inner()] * int(10 ** roll.uniform(0, 3)) if roll.random() < 0.5 else [inner(), inner()]

    names = [f"n{n}" for n in range(int(10 ** roll.uniform(0, 3)))]
    makers: dict[str, Callable[[], Any]] = {
        **dict.fromkeys((*KEYWORDS, "prefixItems", "extends", "disallow"), several),
        **dict.fromkeys(("not", "if", "then", "else", "items", "contains", "propertyNames", "additionalItems"), inner),
        **dict.fromkeys(("additionalProperties", "unevaluatedProperties", "unevaluatedItems"), inner),
        "properties": lambda: {name: inner() for name in "abcd"} | dict.fromkeys(names, True),
        "patternProperties": lambda: {roll.choice(PATTERNS): inner(), "^n": inner()},
        "dependentSchemas": lambda: dict.fromkeys(names, inner()),
        "dependentRequired": lambda: {"a": names, "n1": names},
        "dependencies": lambda: {"a": names, "b": inner()},
        "required": lambda: names,
        "enum": lambda: [*names, [0] * len(names), {"a": 1}, 10**400],
        "const": lambda: make_random_value(roll, 4),
        "pattern": lambda: roll.choice(PATTERNS),
        "uniqueItems": lambda: True,
        "multipleOf": lambda: roll.choice([1e-300, 0.1, 7, 10**400 + 1, 1e300]),
        "maximum": lambda: roll.choice([0, 1e308, 10**400]),
        "minContains": lambda: roll.randrange(9999),
        "maxContains": lambda: roll.randrange(9999),
        "maxLength": lambda: roll.randrange(99),
        "format": lambda: roll.choice(["date-time", "email", "regex", "uri", "ipv6", "idn-hostname"]),
        "$ref": lambda: roll.choice(
            ["#", "#/$defs/d0", "#/$defs/d1", "#/$defs/d2", "#x", "#/nowhere", "http://a.test/"]
        ),
        "$dynamicRef": lambda: "#x",
    }
    return {name: makers[name]() for name in roll.sample(sorted(makers), roll.randrange(1, 5))}


def is_small(schema: Any) -> bool:
    """Whether a schema, written as JSON, has at most 20,000 values: the gateway takes 100 KB."""
    waiting, count = [schema], 0
    while waiting and count <= 20_000:
        one = waiting.pop()
        count += 1
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return count <= 20_000


def make_random_case(number: int) -> Case:
    roll = random.Random(number)
    while True:
        case = _make_case(number, roll)
        if is_small(case[1]):
            return case


def _make_case(number: int, roll: random.Random) -> Case:
    parts = {f"d{place}": make_random_schema(roll, roll.randrange(4)) for place in range(4)}
    parts["d0"] = {"$dynamicAnchor": "x", roll.choice(KEYWORDS): [{"$ref": "#/$defs/d1"}] * 2, "items": parts["d0"]}
    parts["d1"] = {roll.choice(KEYWORDS): [{"$ref": "#/$defs/d2"}] * 2, "unevaluatedProperties": parts["d1"]}
    made = make_random_schema(roll)
    schema = {**(made if isinstance(made, dict) else {}), "$defs": parts}
    if roll.random() < 0.3:
        schema["$schema"] = f"http{'s' if roll.random() < 0.5 else ''}://json-schema.org/{roll.choice(DRAFTS)}"
    return f"random {number}", schema, make_random_value(roll)


def measure_random(count: int, units: int) -> None:
    """Print the slowest ones, and how many ended in which way."""
    found: list[tuple[float, str, str]] = []
    endings: Counter[str] = Counter()
    for number in range(count):
        name, schema, value = make_random_case(number)
        schema_seconds, value_seconds, ending = measure(schema, value, units)
        endings[ending.partition(":")[0]] += 1
        found.append((schema_seconds + value_seconds, name, ending))
    for seconds, name, ending in sorted(found)[-10:]:
        print(f"{seconds:6.2f}  {name:20} {ending}")
    print(f"{count} schemas, at most {max(found)[0]:.2f} s with {units} units: {dict(endings.most_common(6))}")


def measure(schema: Any, value: Any, units: int) -> tuple[float, float, str]:
    began = time.thread_time()
    prepare_schema(schema)
    prepared = time.thread_time()
    try:
        found = validate(value, schema, units)
        ending = "valid" if not found else f"invalid: {found[0][:60]}"
    except Unchecked as error:
        ending = str(error)[:70]
    return prepared - began, time.thread_time() - prepared, ending


def main() -> None:
    if sys.argv[1:2] == ["--random"]:
        measure_random(int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else UNITS)
        return
    units = int(sys.argv[1]) if len(sys.argv) > 1 else UNITS
    slowest = 0.0
    cases = list(list_cases())
    for name, schema, value in cases:
        schema_seconds, value_seconds, ending = measure(schema, value, units)
        slowest = max(slowest, schema_seconds + value_seconds)
        print(f"{schema_seconds:6.2f} {value_seconds:6.2f}  {name:46} {ending}", flush=True)
    print(f"{len(cases)} schemas, at most {slowest:.2f} s with {units} units")


if __name__ == "__main__":
    main()
