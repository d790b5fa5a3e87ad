"""The passages of long files that a question is about are put in, in the order that they have in the files."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
from app.attachments.documents.protocol import FoundPassage, SearchJob, SearchResult, UnreadableFile
from app.attachments.documents.worker_main import run_job
from app.attachments.documents.worker_pool import DocumentWorkers
from app.attachments.passages import (
    GAP,
    MAX_EMBEDDED,
    FileSearch,
    choose_passages,
    find_question,
    fuse_ranks,
    join_passages,
    take_best,
)
from app.chat.attachments import FileText, PassageSearch, Section
from app.chat.events import Fault
from app.chat.messages import ChatRequest, Media, Message, Text
from app.errors import UpstreamFailed
from app.runtime.token_counting import EstimatingCounter
from app.steps.media.texts import find_losses, render_file_text
from msgspec.structs import replace

pytestmark = pytest.mark.anyio

FILLER = "The weather was fine, and nobody said a word about it.\n"
PAGES = tuple(
    Section(FILLER * 30 + (text + "\n") * bool(text) + FILLER * 30, number)
    for number, text in enumerate(
        ("", "Invoices must be paid within thirty days.", "", "A late invoice costs a fee.", ""), 1
    )
)
FILE = FileText(PAGES, "page")
SEARCH = PassageSearch(max_tokens=700, passage_tokens=200, overlap_tokens=20, front=False)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


class Workers:
    """Runs a job in this process."""

    error: UnreadableFile | None = None

    async def search(self, job: SearchJob, *, caller: str = "") -> SearchResult:
        if self.error is not None:
            raise self.error
        return cast(SearchResult, run_job(job))


async def no_embeddings(model: str, texts: Sequence[str]) -> list[list[float]]:
    raise AssertionError("no embedding is wanted")


async def chosen(
    *files: FileText,
    question: str = "invoice",
    workers: Workers | None = None,
    embed: Any = no_embeddings,
    **changed: Any,
) -> list[FileText]:
    wanted = FileSearch(replace(SEARCH, **changed), question, embed)
    return await choose_passages(files, wanted, cast(DocumentWorkers, workers or Workers()))


async def test_the_best_passages_stand_in_the_order_of_the_pages() -> None:
    (file,) = await chosen(FILE)
    assert [section.number for section in file.sections] == [2, 4]
    text = render_file_text("a.pdf", file, "en")
    assert text.index("[Page 2]") < text.index("Invoices must") < text.index("[Page 4]") < text.index("A late invoice")
    assert text.count(GAP) == 4
    assert len(text) < 4000


async def test_the_caller_is_told_which_passages_were_put_in() -> None:
    (file,) = await chosen(FILE)
    (warning,) = find_losses(file)
    numbers = ", ".join(map(str, file.passages))
    assert warning == (
        f"passages {numbers} of {file.passage_count} were put in, those that match the question best: pages 2, 4"
    )


async def test_short_files_stay_as_they_are() -> None:
    short = FileText((Section("short"),))
    assert await chosen(short) == [short]


async def test_a_file_without_a_match_says_so_where_another_one_has_some() -> None:
    other = FileText((Section(FILLER * 60),))
    _, file = await chosen(FILE, other)
    assert not file.sections
    assert "no passage of this file matches the question" in render_file_text("b.txt", file, "en")
    assert find_losses(file)[-1] == f"none of its {file.passage_count} passages was put in: none matches the question"


async def test_neighbours_become_one_text_without_a_repetition() -> None:
    text = "".join(f"Invoice number {number} is due. " for number in range(300))
    (file,) = await chosen(FileText((Section(text),)), max_tokens=1500)
    (section,) = file.sections
    assert section.text.count("Invoice number 20 is due.") <= 1
    kept = section.text.replace(GAP, "").split("\n")
    assert all(part.strip() in text for part in kept)


async def test_no_more_is_put_in_than_is_allowed() -> None:
    (file,) = await chosen(FILE, max_tokens=250)
    parts = (part.strip() for section in file.sections for part in section.text.split(GAP))
    assert sum(map(EstimatingCounter().count, parts)) <= 250
    (file,) = await chosen(FILE, max_passages=1)
    assert len(file.passages) == 1


async def test_where_the_search_fails_the_file_keeps_its_beginning() -> None:
    workers = Workers()
    workers.error = UnreadableFile("took too long to read")
    (file,) = await chosen(FILE, workers=workers)
    assert sum(len(section.text) for section in file.sections) == 700
    assert "only its beginning was put in: the search of its text took too long to read" in find_losses(file)


async def test_embeddings_find_what_has_no_word_of_the_question() -> None:
    async def embed(model: str, texts: Sequence[str]) -> list[list[float]]:
        assert (model, texts[0]) == ("embed-1", "When do I have to pay?")
        return [[1.0, 0.0], *([0.9, 0.1] if "Invoices must" in text else [0.1, 0.9] for text in texts[1:])]

    (file,) = await chosen(
        FILE, question="When do I have to pay?", embed=embed, embedding_model="embed-1", keywords=False, max_passages=1
    )
    assert [section.number for section in file.sections] == [2]


LONG = FileText(tuple(Section(f"Page {number}.\n{FILLER * 60}", number) for number in range(1, 401)), "page")
"""It has more passages than are compared by their embeddings."""


@pytest.mark.parametrize(("question", "keywords"), [("3", True), ("zebra", True), ("zebra", False)])
async def test_embeddings_see_all_parts_of_a_long_file(question: str, keywords: bool) -> None:
    seen: list[str] = []

    async def embed(model: str, texts: Sequence[str]) -> list[list[float]]:
        seen.extend(texts[1:])
        return [[1.0]] * len(texts)

    await chosen(LONG, question=question, keywords=keywords, embed=embed, embedding_model="embed-1")
    assert len(seen) == MAX_EMBEDDED
    pages = [int(text.split()[1].rstrip(".")) for text in seen if text.startswith("Page")]
    assert min(pages) < 20 and max(pages) > 380
    assert question != "3" or "Page 3." in seen[0]


async def test_a_passage_without_a_word_of_the_question_is_found_beside_those_with_one() -> None:
    async def embed(model: str, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 0.0], *([0.9, 0.1] if "thirty days" in text else [0.1, 0.9] for text in texts[1:])]

    (file,) = await chosen(
        FILE, question="fee", embed=embed, embedding_model="embed-1", min_similarity=0.5, max_passages=1
    )
    assert [section.number for section in file.sections] == [2]


async def test_where_embeddings_alone_should_decide_the_words_do_if_they_fail() -> None:
    async def embed(model: str, texts: Sequence[str]) -> list[list[float]]:
        raise UpstreamFailed(Fault("upstream_error", "no such model", transient=False))

    (file,) = await chosen(FILE, embed=embed, embedding_model="embed-1", keywords=False)
    assert [section.number for section in file.sections] == [2, 4]


async def test_a_failed_embedding_leaves_the_words() -> None:
    async def embed(model: str, texts: Sequence[str]) -> list[list[float]]:
        raise UpstreamFailed(Fault("upstream_error", "no such model", transient=False))

    (file,) = await chosen(FILE, embed=embed, embedding_model="embed-1")
    assert [section.number for section in file.sections] == [2, 4]
    assert (
        "its passages were chosen by their words alone, because embed-1 failed: no such model" in find_losses(file)[-1]
    )


def passage(number: int, *, tokens: int = 10, front: bool = False) -> FoundPassage:
    return FoundPassage(0, 0, number, number + 1, tokens, number, front)


def test_a_passage_that_is_good_in_both_orders_is_the_best() -> None:
    first, second, third = (passage(number) for number in (1, 2, 3))
    similar = [0.1, 0.9, 0.8]
    found = [first, second, third]
    assert fuse_ranks(found, similar, SEARCH, matching=3) == [second, first, third]
    assert fuse_ranks(found, similar, replace(SEARCH, keywords=False), matching=3) == [second, third, first]
    assert fuse_ranks(found, [0.9, 0.8, 0.1], SEARCH, matching=0) == found
    assert fuse_ranks(found, [0.1, 0.2, 0.9], SEARCH, matching=1) == [first, third, second]


def test_what_is_not_similar_enough_is_left_out_but_the_first_passages() -> None:
    front, near, far = passage(1, front=True), passage(2), passage(3)
    search = replace(SEARCH, min_similarity=0.5)
    assert fuse_ranks([front, near, far], [0.0, 0.8, 0.2], search, matching=3) == [front, near]


TEXT = [["One word after another. " * 200]]


def test_the_first_passage_that_does_not_fit_is_cut_and_no_shorter_one_takes_its_place() -> None:
    search = PassageSearch(max_tokens=110)
    large = FoundPassage(0, 0, 24, 4000, 700, 2, front=False)
    first, cut = take_best([passage(3), large, passage(4, tokens=5)], search, TEXT)
    assert first == passage(3)
    assert (cut.number, cut.start, cut.tokens, cut.cut) == (2, 24, 100, True)
    assert 200 < cut.end - cut.start < 700


def test_nothing_is_cut_where_only_white_space_would_be_left() -> None:
    search = PassageSearch(max_tokens=11)
    large = FoundPassage(0, 0, 0, 4000, 700, 2, front=False)
    assert take_best([passage(3), large], search, [[" " * 40 + TEXT[0][0]]]) == [passage(3)]


def test_no_passage_is_looked_at_once_all_tokens_are_taken() -> None:
    assert take_best([passage(3), passage(4)], PassageSearch(max_tokens=10), []) == [passage(3)]


async def test_with_less_room_than_one_passage_the_best_is_put_in_from_its_beginning() -> None:
    (file,) = await chosen(FILE, max_tokens=100, passage_tokens=500)
    assert len(file.passages) == 1 and file.cut_passage == file.passages[0]
    assert 200 < len(file.sections[0].text) < 700
    assert find_losses(file) == [
        f"passages {file.cut_passage} of {file.passage_count} were put in, those that match the question best: pages"
        f" {file.sections[0].number}; passage {file.cut_passage} was cut at `max_ref_token`"
    ]
    assert "[a long file: 1 of its" in render_file_text("a.pdf", file, "en")


async def test_a_file_that_matches_less_than_others_says_that_these_took_the_room() -> None:
    other = FileText((Section(FILLER * 60 + "An invoice is a paper. " + FILLER * 60),))
    one, file = await chosen(FileText((Section("Invoice, invoice: an invoice.\n" * 300),)), other, max_tokens=200)
    assert one.passages and not file.passages
    assert find_losses(file) == [
        f"none of its {file.passage_count} passages was put in: those of other files come first, and took what"
        " `rag_cfg` allows"
    ]
    assert "those of other files come first]" in render_file_text("b.txt", file, "en")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, "from its beginning, because no passage has a word of the question: pages 1"),
        ({"keywords": False, "front": True}, "from its beginning: pages 1"),
    ],
)
async def test_without_a_word_that_matches_the_beginning_is_put_in_and_called_so(
    changed: dict[str, Any], why: str
) -> None:
    (file,) = await chosen(FILE, question="zebra", **changed)
    assert file.passages[0] == 1
    assert f"of {file.passage_count} were put in, {why}" in find_losses(file)[0]
    for lang in ("en", "zh"):
        text = render_file_text("a.pdf", file, lang)
        assert "match the question best" not in text and "最相关" not in text


def test_a_passage_that_was_cut_may_end_before_its_neighbour() -> None:
    found = [FoundPassage(0, 0, 0, 10, 5, 1, front=False), FoundPassage(0, 0, 4, 8, 2, 2, front=False, cut=True)]
    assert join_passages(Section("0123456789abcdef"), found) == f"0123456789\n{GAP}"
    later = FoundPassage(0, 0, 9, 13, 2, 3, front=False)
    assert join_passages(Section("0123456789abcdef"), [*found, later]) == f"0123456789abc\n{GAP}"


def test_the_question_is_the_text_of_the_newest_message_of_the_user() -> None:
    file = Media("file", ("https://a.example/a.pdf",), path="messages[2].content[1]")
    messages = (
        Message("user", (Text("old"),)),
        Message("assistant", (Text("answer"),)),
        Message("user", (Text("one"), file, Text("two"))),
        Message("assistant", (Text("begun"),)),
    )
    assert find_question(ChatRequest("m", messages)) == "one\ntwo"
    assert find_question(ChatRequest("m", ())) == ""
