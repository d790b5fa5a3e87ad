"""The figures of `scripts/measure-code`, on small modules."""

import ast
from pathlib import Path
from textwrap import dedent

import pytest

from tests.each_case import each_case
from tests.pages import measure_code
from tests.pages.code_size import (
    Module,
    imported_modules,
    list_implementers,
    list_writes,
    measure_size,
    measure_structure,
    read_modules,
)
from tests.pages.measure_code import count_switches, list_excesses, measure_within, table


def module(text: str, name: str = "app.one") -> Module:
    text = dedent(text)
    return Module(name, len(text.splitlines()), ast.parse(text))


def test_the_modules_of_a_checkout_have_the_names_by_which_they_are_imported(tmp_path: Path) -> None:
    (tmp_path / "app/chat").mkdir(parents=True)
    for name in ("app/__init__.py", "app/chat/__init__.py", "app/chat/events.py", "other.py"):
        (tmp_path / name).write_text("x = 1\n", "utf-8")
    assert [(one.name, one.lines) for one in read_modules(tmp_path)] == [
        ("app", 1),
        ("app.chat", 1),
        ("app.chat.events", 1),
    ]


def test_a_docstring_is_no_part_of_the_length_of_a_function() -> None:
    functions = '''
        def short():
            """Docstring
            of two lines."""
            return 1

        def long():
            one = 1
            def inner():
                return 2
            return one
    '''
    figures = measure_size([module(functions)])
    assert (figures["files"], figures["lines"], figures["functions"]) == (1, 11, 3)
    assert (figures["lines of a function, median"], figures["lines of a function, longest"]) == (1, 4)
    assert figures["functions with docstring, %"] == 33


REPLY = """
    class Reply(Protocol):
        @property
        def model(self): ...
        def start(self): ...

    class _Base:
        def start(self): ...
"""


@each_case(
    ("text", "implements"),
    [
        ("class A:\n    def start(self): ...\n    def model(self): ...", True),
        ("class A:\n    model = None\n    def start(self): ...", True),
        ("class A:\n    model: str\n    def start(self): ...", True),
        ("class A:\n    def start(self):\n        self.model = 1", True),
        ("class A(_Base):\n    def model(self): ...", True),
        ("class A(one._Base[int]):\n    def model(self): ...", True),
        ("class A(_Base):\n    def start(self): ...", False),
        ("class A:\n    def start(self):\n        other.model = 1", False),
        ("class A(Protocol):\n    model: str\n    def start(self): ...", False),
    ],
)
def test_a_class_implements_a_protocol_if_it_has_all_its_names(text: str, implements: bool) -> None:
    modules = [module(REPLY), module(text, "app.two")]
    assert list_implementers(modules, "Reply") == (["A"] if implements else [])


def test_a_protocol_that_does_not_exist_has_no_implementers() -> None:
    assert list_implementers([module("class A:\n    def start(self): ...")], "Reply") == []


def test_a_name_imported_from_a_package_counts_as_its_module_where_it_is_one() -> None:
    text = """
        import app.errors, asyncio
        from app.chat import events, Message
        from app.chat.events import Event
        from httpx import Response
        def later():
            from app.config import settings
    """
    known = {"app.errors", "app.chat", "app.chat.events", "app.config.settings"}
    assert imported_modules(module(text), known) == known


@each_case(
    ("statements", "written"),
    [
        ("self.count = 1", []),
        ("cls.count = 1", []),
        ("other.count = 1", ["other.count"]),
        ("other.count += 1", ["other.count"]),
        ("other.count: int = 1", ["other.count"]),
        ("other.one, self.two = 1, 2", ["other.one"]),
        ("self.other.count = 1", ["self.other.count"]),
        ("other = Record(); other.count = 1", []),
        ("other = records.Record.parse(text); other.count = 1", []),
        ("other: Record = _Record(); other.count = 1", []),
        ("other = find(); other.count = 1", ["other.count"]),
        ("other = cls(); other.count = 1", []),
        ("print(other.count)", []),
    ],
)
def test_a_write_to_an_attribute_counts_unless_the_function_has_made_the_object(
    statements: str, written: list[str]
) -> None:
    tree = ast.parse(f"def f(self, cls, other):\n    {statements}")
    assert [text.partition(": ")[2] for text in list_writes(tree)] == written


def test_a_function_inside_another_counts_its_writes_once() -> None:
    text = "def f():\n    a = A()\n    def g(b):\n        b.x = a.x = 1\n"
    assert list_writes(ast.parse(text)) == ["4: a.x", "4: b.x"]


def test_the_structure_names_the_file_with_the_most_imports() -> None:
    modules = [module(REPLY), module("import app.one, app.three", "app.two"), module("import app.one", "app.three")]
    figures = measure_structure(modules)
    assert figures["modules of app/ that one file imports, most"] == 2
    assert figures["classes that implement Reply"] == 0


def test_a_figure_far_above_its_bound_is_named_and_so_is_one_without_a_bound() -> None:
    figures = {"files": 106, "calls": 105, "lines": 10, "new": 0, "functions": 99}
    bounds = {"files": 100, "calls": 100, "lines": 10}
    assert list_excesses(figures, bounds) == ["files: 106, at most 105", "new: 0, without a bound"]


def test_a_switch_is_a_call_of_another_file_than_the_call_before() -> None:
    assert count_switches(["a", "a", "b", "a", "a"]) == 2
    assert count_switches([]) == 0


def test_the_table_has_a_column_for_each_checkout() -> None:
    assert table({"/old": {"files": 12, "gone": 1}, ".": {"files": 9}}) == [
        "          /old        .",
        "files       12        9",
        "gone         1        -",
    ]


def test_a_path_above_its_bound_is_traced_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traced = iter([{"calls of a hit": 12}, {"calls of a hit": 10}, {"calls of a hit": 14}])
    monkeypatch.setattr(measure_code, "measure", lambda _: {"lines": 300, "calls of a hit": 15})
    monkeypatch.setattr(measure_code, "measure_paths", lambda _: next(traced))
    assert measure_within({"lines": 300, "calls of a hit": 10}, tmp_path) == {"lines": 300, "calls of a hit": 10}
    assert next(traced) == {"calls of a hit": 14}  # what is within its bound is not traced again
