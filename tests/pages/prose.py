"""Checks the spelling and the words of the project's English, with codespell.

    python -m tests.pages.prose [FILE ...]

The prose is that of the pages, the comments, the docstrings, the strings of `app/`, and the playground's English texts.
Blocks of code, text in backticks and targets of links are left out. codespell gets each paragraph as one line, so it
also finds a phrase of `words_to_avoid.txt` that continues on the next line.
"""

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORDS = Path(__file__).with_name("words_to_avoid.txt")
"""Words and phrases to avoid, in the format of codespell's dictionaries: `avoid->use this, or this`, in lower case."""
SPELLED_RIGHT = ("hel", "keep-alives", "strin", "temprature", "thi")
"""What codespell takes for mistakes: pieces of streams, and a typo that pages and messages show on purpose."""

_LEFT_OUT = re.compile(
    r"tests/"  # names, requests and replies with mistakes
    r"|app/playground/site/vendor/"
    r"|docs/reference/api\.md|docs/evidence/"  # written by scripts, from texts of app/ and from what others sent
    r"|app/demo/arguments\.py"  # a list of words
)
_CODE_SPAN = re.compile(r"(`+).+?\1")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|<?https?://\S+")
_HASH_COMMENT = re.compile(r"(?:^|\s)#+\s(.*)$")
_SLASH_COMMENT = re.compile(r"(?:(?:^|\s)(?://+|/\*+)|^\s*\*)\s(.*?)(?:\*/|$)")
_COMMENTS = dict.fromkeys((".c", ".cs", ".css", ".go", ".java", ".js", ".mjs", ".mts", ".php", ".rs"), _SLASH_COMMENT)
_COMMENTS |= dict.fromkeys(("", ".conf", ".rb", ".service", ".sh", ".toml", ".yaml", ".yml"), _HASH_COMMENT)


@dataclass(frozen=True, slots=True)
class Paragraph:
    path: str
    line: int
    text: str


def read_prose(path: str, content: str) -> list[Paragraph]:
    """Return the prose of a file. `path` is relative to the repository, and says how the file is read."""
    found = ((line, _clean(text)) for line, text in _paragraphs(path, content))
    return [Paragraph(path, line, text) for line, text in found if text]


def find_mistakes(paragraphs: Sequence[Paragraph]) -> list[str]:
    """Return `path:line: mistake ==> what to write` for each mistake. The line is the first one of the paragraph."""
    phrases = [line.partition("->")[0] for line in WORDS.read_text("utf-8").splitlines()]
    regex = "|".join([*(rf"\b{phrase}\b" for phrase in phrases if " " in phrase), r"[\w\-'’]+"])
    command = [sys.executable, "-m", "codespell_lib", "-", "--stdin-single-line", f"--regex=(?i:{regex})"]
    command += ["--dictionary=-", f"--dictionary={WORDS}", f"--ignore-words-list={','.join(SPELLED_RIGHT)}"]
    lines = "\n".join(paragraph.text for paragraph in paragraphs)
    ran = subprocess.run(command, input=lines, capture_output=True, encoding="utf-8", check=False)
    if ran.stderr:
        raise RuntimeError(ran.stderr)
    mistakes = []
    for line in ran.stdout.splitlines():
        number, _, mistake = line.partition(": ")
        paragraph = paragraphs[int(number) - 1]
        mistakes.append(f"{paragraph.path}:{paragraph.line}: {mistake}")
    return mistakes


def _paragraphs(path: str, content: str) -> Iterable[tuple[int, str]]:
    """Return the first line and the text of each paragraph."""
    suffix = Path(path).suffix
    if suffix == ".md":
        return _markdown(content)
    if suffix == ".py" or (not suffix and "python" in content.partition("\n")[0]):
        return _python(content, with_strings=path.startswith("app/"))
    if path.endswith("strings/en.json"):
        return ((1, text) for text in json.loads(content).values())
    if suffix in _COMMENTS:
        lines = enumerate(content.splitlines(), 1)
        return _join([(number, found[1]) for number, line in lines if (found := _COMMENTS[suffix].search(line))])
    return ()


def _clean(text: str) -> str:
    return " ".join(_CODE_SPAN.sub("`", _LINK.sub(r"\1", text)).split())


def _markdown(content: str) -> Iterator[tuple[int, str]]:
    """Yield paragraphs, items of lists, headings and cells of tables."""
    in_code = False
    start, lines = 1, list[str]()
    for number, line in enumerate([*content.splitlines(), ""], 1):
        stripped = line.strip()
        is_fence = stripped.startswith("```")
        if is_fence or not stripped or re.match(r"[-*#|>]|\d+\. ", stripped):
            yield start, " ".join(lines)
            start, lines = number, []
        if is_fence:
            in_code = not in_code
        elif not in_code and stripped.startswith("|"):
            yield from ((number, cell) for cell in re.split(r"(?<!\\)\|", stripped))
        elif not in_code and stripped:
            start = start if lines else number
            lines.append(stripped)


def _python(content: str, with_strings: bool) -> Iterator[tuple[int, str]]:
    tokens = tokenize.generate_tokens(io.StringIO(content).readline)
    yield from _join([(token.start[0], token.string[1:]) for token in tokens if token.type == tokenize.COMMENT])
    read = set[ast.AST]()
    for node in ast.walk(ast.parse(content)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)) as docstring):
                read.add(docstring)
                blocks = re.finditer(r"(?:.*\S.*\n?)+", text)
                yield from ((node.lineno + text.count("\n", 0, block.start()), block[0]) for block in blocks)
            case ast.JoinedStr(values=parts) if with_strings:
                read.update(parts)
                texts = (str(part.value) if isinstance(part, ast.Constant) else "``" for part in parts)
                yield node.lineno, "".join(texts)
            case ast.Constant(value=str(text)) if with_strings and node not in read and " " in text:
                yield node.lineno, text


def _join(comments: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Make one paragraph of the comments on successive lines."""
    start, last, texts = 0, -1, list[str]()
    for number, text in comments:
        if number != last + 1:
            yield start, " ".join(texts)
            start, texts = number, []
        texts.append(text)
        last = number
    yield start, " ".join(texts)


def main(names: list[str]) -> int:
    """Print the mistakes of these files, or of all files of the repository, and return the exit status."""
    if not names:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
        names = [name for name in listed.stdout.splitlines() if not _LEFT_OUT.match(name)]
    readable = [name for name in names if Path(name).suffix in {".md", ".py", ".json", *_COMMENTS}]
    paragraphs = [
        paragraph for name in readable for paragraph in read_prose(name, (ROOT / name).read_text("utf-8", "replace"))
    ]
    mistakes = find_mistakes(paragraphs)
    for mistake in mistakes:
        print(mistake)
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
