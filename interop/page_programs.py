"""The Python programs that the pages of docs/ show, and what each needs to run. Knows no package but Python's own."""

import ast
import builtins
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/README.md", "bench/README.md")),
    ROOT / "deploy/helm/parley/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)
GATEWAY = re.compile(r"http://127\.0\.0\.1:800[01]\b")
"""The addresses of the gateway and of a model server in the pages."""
RUN_SECONDS = 120


@dataclass(frozen=True, slots=True)
class PageProgram:
    page: str
    number: int
    """Its place among the Python programs of the page, from 1."""
    text: str

    @property
    def title(self) -> str:
        return f"{self.page}, program {self.number}"

    @property
    def packages(self) -> frozenset[str]:
        """What it imports besides the standard library, without submodules."""
        names = set[str]()
        for node in ast.walk(ast.parse(self.text)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module or "")
        return frozenset(name.partition(".")[0] for name in names) - sys.stdlib_module_names

    @property
    def undefined_names(self) -> frozenset[str]:
        """The names that a part of a program takes from the rest, which the page does not show."""
        read, bound = set[str](), set(dir(builtins))
        for node in ast.walk(ast.parse(self.text)):
            if isinstance(node, ast.Name):
                (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
            elif isinstance(node, ast.alias):
                bound.add((node.asname or node.name).partition(".")[0])
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                bound.add(node.name)
        return frozenset(read - bound)

    def run(self, gateway: str) -> str:
        """Run it in this environment against the gateway at this URL, and return what it printed.

        Raises RuntimeError with its errors if it fails, and TimeoutExpired.
        """
        text = GATEWAY.sub(gateway, self.text)
        environment = {**os.environ, "OPENAI_API_KEY": "any", "NO_PROXY": "*", "no_proxy": "*", "PYTHONUTF8": "1"}
        done = subprocess.run(
            [sys.executable, "-c", text], env=environment, capture_output=True, text=True, timeout=RUN_SECONDS
        )
        if done.returncode:
            raise RuntimeError(f"{self.title}: {done.stderr[-2000:]}")
        return done.stdout


def read_programs() -> list[PageProgram]:
    return [
        PageProgram(str(page.relative_to(ROOT)), number, text)
        for page in PAGES
        for number, text in enumerate(
            re.findall(r"^```py\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE), start=1
        )
    ]
