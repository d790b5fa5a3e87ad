"""Replace the texts of long files by the passages that match the question of a request.

The passages are split and ranked by their words in a document worker, and, with an embedding model, by their embeddings
too. Then the best are put in the order that they have in their files.
"""

import math
import operator
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from app.attachments.documents.protocol import FoundPassage, SearchJob, SearchResult, UnreadableFile
from app.attachments.documents.worker_pool import DocumentWorkers
from app.chat.attachments import FileText, PassageChoice, PassageSearch, Section
from app.chat.messages import ChatRequest, Text
from app.errors import ParleyError
from app.runtime.token_counting import EstimatingCounter

MAX_EMBEDDED = 200
"""So many passages are compared by their embeddings: the best by words, then others from all parts of the files."""
RANK_OFFSET = 60
"""Of reciprocal rank fusion (Cormack and others, 2009), as in Qwen-Agent's hybrid search."""
GAP = "[…]"
"""Stands where passages were left out."""
_COUNTER = EstimatingCounter()
"""As the tokens of passages are counted."""

Embed: TypeAlias = Callable[[str, Sequence[str]], Awaitable[list[list[float]]]]
"""Returns the embeddings of texts by a model. Raises ParleyError."""


class FileSearch(Struct, frozen=True):
    """What the files of a request are searched for."""

    passages: PassageSearch
    question: str
    embed: Embed


async def choose_passages(
    files: Sequence[FileText], wanted: FileSearch, workers: DocumentWorkers, caller: str = ""
) -> list[FileText]:
    """Return the files, each with its chosen passages. Files that together have at most `max_tokens` stay whole. Raises
    Busy."""
    search, question, model = wanted.passages, wanted.question, wanted.passages.embedding_model
    texts = [[section.text for section in file.sections] for file in files]
    job = SearchJob(
        texts,
        question,
        search.max_tokens,
        search.passage_tokens,
        search.overlap_tokens,
        keywords=search.keywords or model is not None,
        front=search.front,
        max_others=0 if model is None else MAX_EMBEDDED,
    )
    try:
        found = await workers.search(job, caller=caller)
    except UnreadableFile as error:
        problem = f"only its beginning was put in: the search of its text {error}"
        most = search.max_tokens // len(files)
        return [replace(_keep_beginning(file, most), search_problem=problem) for file in files]
    if found.fits:
        return list(files)
    ranked, problem = found.passages, ""
    if model is not None:
        try:
            ranked = await _rank_by_meaning(found, texts, search, model, question, wanted.embed)
        except ParleyError as error:
            problem = f"its passages were chosen by their words alone, because {model} failed: {error.message}"
    chosen = take_best(ranked, search, texts)
    return [
        replace(
            _cut_file(file, number, chosen, found.totals[number]),
            search_problem=problem,
            passage_choice=_explain_choice(number, ranked, chosen, found, search),
        )
        for number, file in enumerate(files)
    ]


def _explain_choice(
    file: int,
    ranked: Sequence[FoundPassage],
    chosen: Sequence[FoundPassage],
    found: SearchResult,
    search: PassageSearch,
) -> PassageChoice:
    if not any(each.file == file for each in ranked):
        return "match"
    if not any(each.file == file for each in chosen):
        return "no_room"
    if found.by_words or ranked is not found.passages:
        return "match"
    return "unmatched" if search.keywords or search.embedding_model is not None else "beginning"


async def _rank_by_meaning(
    found: SearchResult,
    texts: Sequence[Sequence[str]],
    search: PassageSearch,
    model: str,
    question: str,
    embed: Embed,
) -> list[FoundPassage]:
    """Rank by words and by embeddings together. Raises ParleyError."""
    best = found.passages[: min(found.matching, MAX_EMBEDDED)]
    candidates = [*best, *found.others[: MAX_EMBEDDED - len(best)]]
    parts = [texts[each.file][each.section][each.start : each.end] for each in candidates]
    asked, *vectors = await embed(model, [question, *parts])
    return fuse_ranks(candidates, [_similarity(asked, vector) for vector in vectors], search, matching=len(best))


def fuse_ranks(
    candidates: Sequence[FoundPassage], similarities: Sequence[float], search: PassageSearch, *, matching: int
) -> list[FoundPassage]:
    """Rank passages by both ranks. The first `matching` ones are in the order of their words; the others have no such
    rank. The first ones of the file stay first."""
    by_meaning = sorted(range(len(candidates)), key=lambda place: -similarities[place])
    scores = [0.0] * len(candidates)
    for rank, place in enumerate(by_meaning):
        scores[place] += 1 / (rank + 1 + RANK_OFFSET)
    for rank, each in enumerate(candidates):
        if each.front:
            scores[rank] = math.inf
        elif search.keywords and rank < matching:
            scores[rank] += 1 / (rank + 1 + RANK_OFFSET)
    least = search.min_similarity
    kept = [
        place for place, each in enumerate(candidates) if least is None or each.front or similarities[place] >= least
    ]
    return [candidates[place] for place in sorted(kept, key=lambda place: -scores[place])]


def _similarity(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors."""
    product = sum(map(operator.mul, one, other))
    length = math.hypot(*one) * math.hypot(*other)
    return product / length if length else 0.0


def take_best(
    ranked: Iterable[FoundPassage], search: PassageSearch, texts: Sequence[Sequence[str]]
) -> list[FoundPassage]:
    """Return the best passages that fit. The first one that does not is cut to what is left, and is the last, as in
    Qwen-Agent's get_topk. `texts` has the sections of each file."""
    chosen: list[FoundPassage] = []
    left = search.max_tokens
    for each in ranked:
        if len(chosen) == search.max_passages or left <= 0:
            break
        if each.tokens > left:
            return [*chosen, *_cut_passage(each, left, texts[each.file][each.section])]
        chosen.append(each)
        left -= each.tokens
    return chosen


def _cut_passage(passage: FoundPassage, max_tokens: int, section: str) -> Iterator[FoundPassage]:
    """Yield the beginning of a passage, if it has more than white space."""
    text = _COUNTER.truncate(section[passage.start : passage.end], max_tokens, keep_both_sides=False)
    if text.strip():
        yield replace(passage, end=passage.start + len(text), tokens=max_tokens, cut=True)


def _keep_beginning(file: FileText, max_characters: int) -> FileText:
    sections: list[Section] = []
    for section in file.sections:
        text = section.text[:max_characters]
        max_characters -= len(text)
        if text:
            sections.append(replace(section, text=text))
    return replace(file, sections=tuple(sections), cut=True)


def _cut_file(file: FileText, number: int, chosen: Sequence[FoundPassage], count: int) -> FileText:
    own = sorted((each for each in chosen if each.file == number), key=operator.attrgetter("number"))
    by_section: dict[int, list[FoundPassage]] = {}
    for each in own:
        by_section.setdefault(each.section, []).append(each)
    sections = [
        replace(file.sections[at], text=join_passages(file.sections[at], passages))
        for at, passages in by_section.items()
    ]
    return replace(
        file,
        sections=tuple(sections),
        passages=tuple(each.number for each in own),
        passage_count=count,
        cut_passage=next((each.number for each in own if each.cut), 0),
    )


def join_passages(section: Section, passages: Sequence[FoundPassage]) -> str:
    """Join passages of a section. Neighbours overlap, and become one text."""
    text, parts, end = section.text, list[str](), passages[0].start
    for each in passages:
        parts.append(text[end : each.end] if each.start <= end else f"\n{GAP}\n{text[each.start : each.end]}")
        end = max(end, each.end)  # a passage that was cut may end before its neighbour
    head = f"{GAP}\n" if text[: passages[0].start].strip() else ""
    tail = f"\n{GAP}" if text[end:].strip() else ""
    return f"{head}{''.join(parts).strip()}{tail}"


def find_question(request: ChatRequest) -> str:
    """Return the text of the newest message of the user, which the files are searched for; empty without one."""
    for message in reversed(request.messages):
        if message.role == "user":
            return "\n".join(part.text for part in message.parts if isinstance(part, Text))
    return ""
