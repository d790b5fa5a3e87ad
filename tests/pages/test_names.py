"""What comments and pages name in code spans is there: files of the project, and names in its code."""

import io
import re
import subprocess
import tokenize
from functools import cache
from pathlib import Path

from tests.each_case import each_case

ROOT = Path(__file__).parents[2]
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPAN = re.compile(r"`([^`\n]+)`")
_MODULE = re.compile(r"(?:\w+/)+\w+\.py")
_OTHERS = """
_mandatory_refresh_timeout _priority anonymize f0c92ab getUseModel http11 include_router isom
litellm_core_utils llm_cost_calc m59s MAX_LINE_LENGTH MAX_NUM_HEADERS ModelCard mp42 NAME_FILE PARLEY_A__B
pcm16 ProxyFromEnvironment sre_parse stream_printing_messages assistantfinalFour uXXXX xxxxxxxx
"""
"""Names in other projects, and examples."""


@cache
def list_files() -> tuple[str, ...]:
    found = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return tuple(name for name in found if (ROOT / name).exists())


@cache
def read_modules() -> dict[str, tuple[str, str]]:
    """Return the code of each module of `app/`, and its comments and docstrings."""
    modules = {}
    for name in list_files():
        if name.startswith("app/") and name.endswith(".py"):
            code, comments = list[str](), list[str]()
            for token in tokenize.generate_tokens(io.StringIO((ROOT / name).read_text("utf-8")).readline):
                is_docstring = token.type == tokenize.STRING and token.string.lstrip("rR").startswith('"""')
                (comments if is_docstring or token.type == tokenize.COMMENT else code).append(token.string)
            modules[name] = " ".join(code), "\n".join(comments)
    return modules


@cache
def list_known_words() -> frozenset[str]:
    """Return the words of the code and of other files that are read by programs, and the names of all files."""
    texts = [_OTHERS, *list_files(), *(code for code, _ in read_modules().values())]
    endings = (".py", ".toml", ".json", ".mjs", ".js", ".yaml", ".yml", ".html", ".lock", ".txt", ".c", ".css")
    others = (name for name in list_files() if name.endswith(endings) and name not in read_modules())
    texts += ((ROOT / name).read_text("utf-8") for name in others)
    return frozenset(word for text in texts for word in _WORD.findall(text))


def find_unknown(text: str, known: frozenset[str]) -> list[str]:
    """Return the words of at least four letters in code spans that are in no code."""
    words = (word for span in _SPAN.findall(text) for word in _WORD.findall(span))
    return [word for word in words if len(word) > 3 and word not in known]


def test_names_in_comments_are_those_of_the_code() -> None:
    known = list_known_words()
    comments = {name: find_unknown(text, known) for name, (_, text) in read_modules().items()}
    assert not {name: unknown for name, unknown in comments.items() if unknown}


def test_modules_that_pages_name_are_there() -> None:
    files = frozenset(list_files())
    for page in (name for name in files if name.endswith(".md") and name != "CHANGELOG.md"):
        spans = "\n".join(_SPAN.findall((ROOT / page).read_text("utf-8")))
        for module in _MODULE.findall(spans):
            places = (module, f"app/{module}", f"{Path(page).parent}/{module}")
            assert files.intersection(places), (page, module)


@each_case(
    ("text", "unknown"),
    [("Calls `no_such_name`.", ["no_such_name"]), ("Calls `Path` and `x`.", []), ("no_such_name", [])],
)
def test_a_name_that_is_in_no_code_is_found(text: str, unknown: list[str]) -> None:
    assert find_unknown(text, frozenset({"Path"})) == unknown
