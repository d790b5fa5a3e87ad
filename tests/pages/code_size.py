"""Figures about the code of a checkout, read from its syntax trees: size, implementers of a protocol, imports, and
writes to attributes of other objects."""

import ast
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
PROTOCOLS = ("Reply", "Receiver")
PACKAGE = "app"


@dataclass(frozen=True, slots=True)
class Module:
    name: str
    lines: int
    tree: ast.Module


def read_modules(checkout: Path) -> list[Module]:
    paths = sorted((checkout / PACKAGE).rglob("*.py"))
    return [_read_module(path, path.relative_to(checkout)) for path in paths]


def _read_module(path: Path, relative: Path) -> Module:
    text = path.read_text("utf-8")
    name = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
    return Module(name, len(text.splitlines()), ast.parse(text))


def measure_size(modules: list[Module]) -> dict[str, int]:
    """The length of a function is that of its body, without its docstring."""
    functions = [node for module in modules for node in ast.walk(module.tree) if isinstance(node, Function)]
    lengths = sorted(map(body_lines, functions))
    documented = sum(ast.get_docstring(function) is not None for function in functions)
    return {
        "files": len(modules),
        "lines": sum(module.lines for module in modules),
        "functions": len(functions),
        "lines of a function, median": round(statistics.median(lengths)),
        "lines of a function, p90": lengths[len(lengths) * 9 // 10],
        "lines of a function, longest": lengths[-1],
        "functions with docstring, %": 100 * documented // len(functions),
    }


def body_lines(function: Function) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def measure_structure(modules: list[Module]) -> dict[str, int]:
    implementers = {f"classes that implement {name}": len(list_implementers(modules, name)) for name in PROTOCOLS}
    known = {module.name for module in modules}
    return implementers | {
        f"modules of {PACKAGE}/ that one file imports, most": max(
            len(imported_modules(module, known)) for module in modules
        ),
        "writes to attributes of another object": sum(len(list_writes(module.tree)) for module in modules),
    }


def list_implementers(modules: list[Module], protocol: str) -> list[str]:
    """The classes that have all methods of the protocol, of their own or of a base class."""
    classes: dict[str, list[ast.ClassDef]] = {}
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(node)
    wanted = [_own_names(node) for node in classes.get(protocol, []) if _is_protocol(node)]
    return [
        name
        for name, nodes in sorted(classes.items())
        for node in nodes
        if not _is_protocol(node) and any(names <= _names(node, classes) for names in wanted)
    ]


def _is_protocol(node: ast.ClassDef) -> bool:
    return any(_base_name(base) == "Protocol" for base in node.bases)


def _names(node: ast.ClassDef, classes: dict[str, list[ast.ClassDef]]) -> set[str]:
    names = _own_names(node)
    for base in node.bases:
        for parent in classes.get(_base_name(base), []):
            if parent is not node and not _is_protocol(parent):
                names |= _names(parent, classes)
    return names


def _base_name(base: ast.expr) -> str:
    while isinstance(base, ast.Subscript):
        base = base.value
    return base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""


def _own_names(node: ast.ClassDef) -> set[str]:
    """The methods and attributes of a class: those of its body, and what its methods assign to `self`."""
    names = set()
    for statement in node.body:
        if isinstance(statement, Function):
            names.add(statement.name)
            names |= {target.attr for target, _ in _attribute_targets(statement) if _is_self(target.value)}
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def imported_modules(module: Module, known: set[str]) -> set[str]:
    """The modules of the package that this one imports: of `from app.x import y` it is `app.x.y` where that is one."""
    found = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {member if member in known else node.module for member in members.values()}
    return found & known


def list_writes(tree: ast.AST) -> list[str]:
    """The writes `x.y = …` where x is neither `self` or `cls` nor an object that the same function has made."""
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    return sorted(
        f"{target.lineno}: {ast.unparse(target)}"
        for function in functions
        for target, made in _attribute_targets(function)
        if not _is_self(target.value) and not (isinstance(target.value, ast.Name) and target.value.id in made)
    )


def _attribute_targets(function: Function) -> Iterator[tuple[ast.Attribute, set[str]]]:
    """The attributes that a function assigns, without those of functions in it, and the names of what it has made."""
    nodes = list(_own_nodes(function))
    made = {
        name.id
        for node in nodes
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call)
        for name in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(name, ast.Name) and _makes(node.value)
    }
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node, made


def _own_nodes(function: Function) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Function):
            yield node
            waiting += ast.iter_child_nodes(node)


def _makes(call: ast.Call) -> bool:
    """Whether the call is one of a class, by the custom that only their names begin with a capital letter."""
    words = ast.unparse(call.func).split(".")
    return any(word.lstrip("_")[:1].isupper() for word in words) or words[-1] in ("cls", "copy")


def _is_self(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in ("self", "cls")
