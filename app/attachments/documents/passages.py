"""Find the passages of long files that match a question, with BM25 as SQLite's full-text search (FTS5) computes it.

It runs in a document worker: a book of a million words takes seconds.
"""

import re
import sqlite3
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from app.attachments.documents.protocol import FoundPassage, SearchJob, SearchResult
from app.runtime.token_counting import EstimatingCounter

MAX_FOUND = 1000
"""So many passages are returned at most."""
FRONT_PASSAGES = 2
"""The first passages of the only file, which say what it is about (Qwen-Agent's front_page_search)."""
MAX_WORDS = 64
"""So many different words of a question are searched at most."""

_UNIT_END = re.compile(r"\n+|[.!?]\s+|[。！？；]+\s*")
_WORD = re.compile(r"[\u2e80-\u2fff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+|[^\W_]+")
_CJK = re.compile(r"[\u2e80-\u2fff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_COMMON_WORDS = """
a about all am an and any are as at be been but by can could did do does for from had has have he her him his how i if
in into is it its just me more most my no not of on only or other our out over own please same say she should so some
such summarize summary tell than that the their them then there these they this those to too up very was we were what
when where which while who whom why will with would you your
的 了 吗 呢 啊 是 我 你 他 她 它 这 那 在 和 与 或 什么 怎么 如何 哪些 哪个 为什么
请 请问 一下 总结 这个 那个 文档 文章 论文
"""
_IGNORED = frozenset(_COMMON_WORDS.split())
_count = EstimatingCounter().count


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a section: `text[start:end]` of it."""

    file: int
    section: int
    start: int
    end: int
    tokens: int


def find_passages(job: SearchJob) -> SearchResult:
    """Rank the passages of the files by their match with the question, the best first. Those without a match are left
    out, unless nothing matches: then they come in the order of the files' pages. `others` has some of those without a
    match."""
    counts = [sum(map(_count, sections)) for sections in job.files]
    if sum(counts) <= job.max_tokens:
        return SearchResult(fits=True)
    by_file = [list(_split_file(number, sections, job)) for number, sections in enumerate(job.files)]
    passages = [passage for found in by_file for passage in found]
    matching = _rank(job, passages) if job.keywords else []
    # Without a word that matches, each file gets an equal share, from its beginning.
    in_turn = (each for places in zip_longest(*by_file) for each in places if each is not None)
    ranked = matching or list(in_turn)
    front = _find_front(job, by_file) if job.front else ()
    best = dict.fromkeys([*front, *matching])
    ordered = list(dict.fromkeys([*front, *ranked]))[:MAX_FOUND]
    others = _take_evenly([passage for passage in passages if passage not in best], job.max_others)
    numbers = {passage: number for found in by_file for number, passage in enumerate(found, 1)}

    def describe(found: Sequence[Passage]) -> list[FoundPassage]:
        return [
            FoundPassage(each.file, each.section, each.start, each.end, each.tokens, numbers[each], each in front)
            for each in found
        ]

    totals = [len(found) for found in by_file]
    return SearchResult(False, totals, describe(ordered), min(len(best), MAX_FOUND), describe(others), bool(matching))


def _find_front(job: SearchJob, by_file: Sequence[Sequence[Passage]]) -> Sequence[Passage]:
    """Return the first passages if there is one file, and they take at most half of what may be put in."""
    if len(by_file) != 1:
        return ()
    front = by_file[0][:FRONT_PASSAGES]
    return front if 2 * sum(passage.tokens for passage in front) <= job.max_tokens else ()


def _take_evenly(passages: Sequence[Passage], most: int) -> Sequence[Passage]:
    """Return at most so many passages, at equal distances."""
    if len(passages) <= most:
        return passages
    return [passages[number * len(passages) // most] for number in range(most)]


def _split_file(file: int, sections: Sequence[str], job: SearchJob) -> Iterator[Passage]:
    for section, text in enumerate(sections):
        for start, end, tokens in split_text(text, job.passage_tokens, job.overlap_tokens):
            yield Passage(file, section, start, end, tokens)


def split_text(text: str, max_tokens: int, overlap_tokens: int) -> Iterator[tuple[int, int, int]]:
    """Split a text into (start, end, tokens) at the ends of lines and sentences. A part begins with the last sentences
    of the part before it, as far as these have at most `overlap_tokens`."""
    units: list[tuple[int, int, int]] = []
    size, is_new = 0, False
    for unit in _split_units(text, max_tokens):
        if units and size + unit[2] > max_tokens:
            yield units[0][0], units[-1][1], size
            units = _keep_end(units, min(overlap_tokens, max_tokens - unit[2]))
            size, is_new = sum(each[2] for each in units), False
        units.append(unit)
        size, is_new = size + unit[2], True
    if is_new:
        yield units[0][0], units[-1][1], size


def _keep_end(units: list[tuple[int, int, int]], max_tokens: int) -> list[tuple[int, int, int]]:
    """Return the last units that together have at most so many tokens, but never all."""
    first, size = len(units), 0
    while first > 1 and size + units[first - 1][2] <= max_tokens:
        first -= 1
        size += units[first][2]
    return units[first:]


def _split_units(text: str, max_tokens: int) -> Iterator[tuple[int, int, int]]:
    start = 0
    for end in (*(match.end() for match in _UNIT_END.finditer(text)), len(text)):
        if text[start:end].strip():
            yield from _split_unit(text, start, end, max_tokens)
        start = end


def _split_unit(text: str, start: int, end: int, max_tokens: int) -> Iterator[tuple[int, int, int]]:
    tokens = _count(text[start:end])
    if tokens <= max_tokens:
        yield start, end, tokens
        return
    for at in range(start, end, max_tokens):  # a token has at least one character
        last = min(at + max_tokens, end)
        yield at, last, _count(text[at:last])


def list_words(text: str) -> list[str]:
    """Return the words of a text: of Chinese, Japanese and Korean, each two neighbouring characters."""
    words: list[str] = []
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).lower()):
        if not _CJK.match(word) or len(word) == 1:
            words.append(word)
        else:
            words += (word[at : at + 2] for at in range(len(word) - 1))
    return words


def _rank(job: SearchJob, passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages that have a word of the question, the best first."""
    wanted = list(dict.fromkeys(word for word in list_words(job.question) if word not in _IGNORED))[:MAX_WORDS]
    if not wanted:
        return []
    database = sqlite3.connect(":memory:")
    try:
        database.execute("PRAGMA temp_store = MEMORY")  # a worker may write no file
        # `porter` finds "payments" for "payment".
        database.execute("CREATE VIRTUAL TABLE passages USING fts5(words, content='', tokenize='porter unicode61')")
        database.executemany(
            "INSERT INTO passages(rowid, words) VALUES (?, ?)",
            (
                (number, " ".join(list_words(job.files[each.file][each.section][each.start : each.end])))
                for number, each in enumerate(passages)
            ),
        )
        query = " OR ".join(f'"{word}"' for word in wanted)
        rows = database.execute(
            "SELECT rowid FROM passages WHERE passages MATCH ? ORDER BY bm25(passages), rowid LIMIT ?",
            (query, MAX_FOUND),
        )
        return [passages[number] for (number,) in rows]
    finally:
        database.close()
