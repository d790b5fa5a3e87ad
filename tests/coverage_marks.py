"""Loads the modules of app/ so that their lines and branches leave marks in a file when they run.

Before each statement stands one more, which sets a byte of the file. All processes share the file: nothing is lost when
one is killed, and nothing has to be put together. Unlike a tracer, this does not slow down other code.
"""

import ast
import functools
import mmap
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeGuard

ROOT = Path(__file__).parents[1]
MARKS = "TESTS_COVERAGE_MARKS"
"""The environment variable with the path of the file."""
BYTES = 2 * 4096
"""Of each module. A line has two: for its statement, and for the missing `else` of its `if` or loop."""
_VERSION = zlib.crc32(Path(__file__).read_bytes())


@functools.cache
def measured_files() -> list[str]:
    return sorted(str(path) for path in (ROOT / "app").rglob("*.py"))


@functools.cache
def _all_marks() -> memoryview:
    with Path(os.environ[MARKS]).open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 0))


def marks_of(path: str) -> memoryview:
    begin = measured_files().index(path) * BYTES
    return _all_marks()[begin : begin + BYTES]


def load_with_marks() -> None:
    """Load modules of app/ with marks from now on, in this process and those that are forked from it."""
    sys.meta_path.insert(0, _Finder())


def write_bytecode() -> None:
    """At once for all processes, of which each would else compile app/ when it has changed."""
    for path in measured_files():
        _Loader(path, path).get_code(path)


class _Finder:
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name.partition(".")[0] == "app" else None
        if spec and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    """Keeps its bytecode beside that without marks."""

    def get_data(self, path: str) -> bytes:
        return super().get_data(_with_version(path))

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        super().set_data(_with_version(path), data, _mode=_mode)

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override]
        tree = add_marks(ast.parse(data))
        after_docstring = int(ast.get_docstring(tree) is not None)
        opening = f"import {__name__} as __marks__; __marks__ = __marks__.marks_of(__file__)"
        tree.body[after_docstring:after_docstring] = ast.parse(opening).body
        return super().source_to_code(tree, path)


def _with_version(path: str) -> str:
    return f"{path.removesuffix('.pyc')}-{_VERSION}.pyc" if path.endswith(".pyc") else path


def add_marks(tree: ast.Module) -> ast.Module:
    for node in list(ast.walk(tree)):
        for field in ("body", "orelse", "finalbody"):
            if isinstance(statements := getattr(node, field, None), list):
                setattr(node, field, list(_add_marks(statements)))
        if can_end_without_body(node) and not node.orelse:
            node.orelse = [_mark(node, 1)]
    return ast.fix_missing_locations(tree)


def _add_marks(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in statements:
        if leaves_mark(statement):
            yield _mark(statement, 0)
        yield statement


def _mark(statement: ast.stmt, which: int) -> ast.stmt:
    target = ast.Subscript(ast.Name("__marks__", ast.Load()), ast.Constant(2 * statement.lineno + which), ast.Store())
    return ast.copy_location(ast.Assign([target], ast.Constant(1)), statement)


def leaves_mark(statement: ast.stmt) -> bool:
    """Docstrings, and the dots of an empty body, are not run."""
    return not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))


def can_end_without_body(node: ast.AST) -> TypeGuard[ast.If | ast.For | ast.AsyncFor | ast.While]:
    """Not `while True`."""
    is_branch = isinstance(node, ast.If | ast.For | ast.AsyncFor | ast.While)
    return is_branch and not isinstance(getattr(node, "test", None), ast.Constant)
