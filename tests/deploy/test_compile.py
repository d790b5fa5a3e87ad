"""scripts/compile: what it compiles, when it does so again, and what it refuses."""

import ast
import importlib
import runpy
from pathlib import Path

import msgspec
import pydantic
import pytest

from tests.each_case import each_case

ROOT = Path(__file__).parents[2]
script = runpy.run_path(str(ROOT / "scripts/compile"), run_name="script")
CompileError: type[Exception] = script["CompileError"]


def make_project(folder: Path, compiled: str) -> Path:
    """What the result depends on, with two modules."""
    for name in ("app/a.py", "app/b.py", "app/data.txt", "requirements-compile.lock", "scripts/compile"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name, "utf-8")
    (folder / "pyproject.toml").write_text(f"[tool.parley]\ncompiled = {compiled}\n", "utf-8")
    return folder


def test_the_list_names_sources_of_the_gateway() -> None:
    paths = script["read_list"]()
    assert paths and all(path.startswith("app/") and (ROOT / path).is_file() for path in paths)


def test_a_pattern_stands_for_every_source_that_it_matches(tmp_path: Path) -> None:
    root = make_project(tmp_path, '["app/b.py", "app/*"]')
    assert script["read_list"](root) == ["app/a.py", "app/b.py"]


@pytest.mark.parametrize("pattern", ["app/c.py", "app/c*.py", "app/*.txt"])
def test_a_pattern_that_matches_no_source_is_an_error(pattern: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="matches no source file"):
        script["read_list"](make_project(tmp_path, f'["app/a.py", "{pattern}"]'))


@each_case("path", script["read_list"]())
def test_no_compiled_module_defines_a_struct_or_a_model(path: str) -> None:
    """mypyc drops the keywords of a class, such as frozen=True, without a word."""
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    assert [one.__name__ for one in own if issubclass(one, msgspec.Struct | pydantic.BaseModel)] == []


@pytest.mark.parametrize(
    "name", ["app/a.py", "app/data.txt", "app/new.py", "pyproject.toml", "requirements-compile.lock"]
)
def test_a_change_of_what_the_result_depends_on_makes_it_out_of_date(name: str, tmp_path: Path) -> None:
    root = make_project(tmp_path, '["app/a.py"]')
    before = script["make_stamp"](root)
    (root / "app/__pycache__").mkdir()
    (root / "app/__pycache__/a.pyc").touch()
    assert script["make_stamp"](root) == before
    (root / name).write_text("changed", "utf-8")
    assert script["make_stamp"](root) != before


def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    script["check_folder"](tmp_path / "new")
    script["check_folder"](tmp_path)
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(CompileError, match="has other files"):
        script["check_folder"](tmp_path)
    (tmp_path / script["STAMP"]).touch()
    script["check_folder"](tmp_path)


def list_compiled_trees() -> dict[str, ast.Module]:
    return {path: ast.parse((ROOT / path).read_text("utf-8")) for path in script["read_list"]()}


def test_no_compiled_coroutine_waits_while_it_handles_an_exception() -> None:
    """mypyc keeps one exception for all coroutines: after such a wait, another one may be raised again."""
    waits = ast.Await | ast.AsyncWith | ast.AsyncFor
    trees = list_compiled_trees()
    found = [
        f"{path}:{node.lineno}"
        for path, tree in trees.items()
        for outer in ast.walk(tree)
        for part in [*getattr(outer, "handlers", ()), *getattr(outer, "finalbody", ())]
        for node in ast.walk(part)
        if isinstance(node, waits)
    ]
    found += [
        f"{path}:{node.lineno}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncWith)
    ]
    assert found == []


def test_no_compiled_class_has_none_as_the_default_of_a_protocol() -> None:
    """mypyc leaves such an attribute undefined, where the Protocol is compiled too. `__init__` may set it."""
    trees = list_compiled_trees()
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    protocols = {one.name for one in classes if "Protocol" in {ast.unparse(base).split("[")[0] for base in one.bases}}
    assert "LogSubscriber" in protocols
    found = [
        f"{one.name}.{ast.unparse(node.target)}"
        for one in classes
        for node in one.body
        if isinstance(node, ast.AnnAssign) and node.value is not None and ast.unparse(node.value) == "None"
        if protocols & {name.id for name in ast.walk(node.annotation) if isinstance(name, ast.Name)}
    ]
    assert found == []
