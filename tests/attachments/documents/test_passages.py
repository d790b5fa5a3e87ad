"""Long files are split into passages at the ends of sentences, and ranked by the words of a question."""

from typing import Any

from app.attachments.documents.passages import FRONT_PASSAGES, list_words, split_text
from app.attachments.documents.protocol import SearchJob, SearchResult
from app.attachments.documents.worker_main import run_job
from app.runtime.token_counting import EstimatingCounter
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case

FILLER = "The weather was fine, and nobody said a word about it.\n"
BOOK = FILLER * 400 + "Invoices must be paid within thirty days.\n" + FILLER * 400
POLICY_FIRST = "Invoices must be paid within thirty days.\n" + FILLER * 400
POLICY = "退款政策：客户可以在三十天内申请退款。\n"
CHINESE_BOOK = "今天天气很好，我们去公园散步。" * 500 + POLICY + "今天天气很好，我们去公园散步。" * 500


def search(*files: list[str], question: str, **changed: Any) -> SearchResult:
    fields: dict[str, Any] = {
        "max_tokens": 2000,
        "passage_tokens": 200,
        "overlap_tokens": 20,
        "keywords": True,
        "front": False,
    }
    reply = run_job(SearchJob(list(files), question, **fields | changed))
    assert isinstance(reply, SearchResult), reply
    return reply


def best_text(files: list[list[str]], result: SearchResult) -> str:
    best = result.passages[0]
    return files[best.file][best.section][best.start : best.end]


@each_case(
    ("text", "question", "found"),
    [
        (BOOK, "When must an invoice be paid?", "Invoices must be paid"),
        (BOOK, "INVOICE", "Invoices must be paid"),
        (CHINESE_BOOK, "怎么申请退款？", "申请退款"),
    ],
)
def test_the_passage_with_the_words_of_the_question_comes_first(text: str, question: str, found: str) -> None:
    result = search([text], question=question)
    assert not result.fits
    assert found in best_text([[text]], result)


def test_passages_without_a_word_of_the_question_are_left_out() -> None:
    result = search([BOOK], question="invoice")
    assert 1 <= len(result.passages) <= 2  # neighbours overlap
    assert result.totals[0] > 40


def test_files_that_may_be_put_in_whole_are_not_searched() -> None:
    assert search(["short"], ["short too"], question="anything").fits


def test_all_files_are_ranked_together() -> None:
    result = search([FILLER * 200], [BOOK], question="invoice")
    assert {passage.file for passage in result.passages} == {1}


@each_case("question", ["", "请问这个文档", "Summarize this", "zebra"])
def test_without_a_word_that_matches_each_file_gives_its_beginning(question: str) -> None:
    result = search([BOOK], [FILLER * 200], question=question)
    assert [(each.file, each.number) for each in result.passages[:4]] == [(0, 1), (1, 1), (0, 2), (1, 2)]


def test_the_first_passages_of_the_only_file_come_first() -> None:
    result = search([BOOK], question="invoice", front=True)
    numbers = [(each.number, each.front) for each in result.passages]
    assert numbers[:FRONT_PASSAGES] == [(1, True), (2, True)]
    assert not numbers[FRONT_PASSAGES][1]
    assert not any(each.front for each in search([BOOK], [FILLER * 200], question="invoice", front=True).passages)


def test_a_front_passage_that_is_also_the_best_one_is_still_marked() -> None:
    result = search([POLICY_FIRST], question="invoice", front=True)
    assert [(each.number, each.front) for each in result.passages[:FRONT_PASSAGES]] == [(1, True), (2, True)]


def test_passages_without_a_match_come_from_all_parts_of_the_files_for_a_comparison_by_meaning() -> None:
    result = search([BOOK], question="invoice", max_others=10)
    assert result.matching == len(result.passages) <= 2
    numbers = [each.number for each in result.others]
    assert len(numbers) == 10 and numbers == sorted(numbers)
    assert numbers[0] == 1 and numbers[-1] > 0.8 * result.totals[0]
    assert not set(numbers) & {each.number for each in result.passages}
    unmatched = search([BOOK], question="zebra", max_others=10_000)
    assert (unmatched.matching, len(unmatched.others)) == (0, unmatched.totals[0])
    assert not search([BOOK], question="invoice").others


def test_the_first_passages_are_no_exception_where_they_would_take_the_place_of_the_others() -> None:
    result = search([BOOK], question="invoice", front=True, max_tokens=500)
    assert not any(each.front for each in result.passages)


def test_a_question_is_never_read_as_a_search_expression() -> None:
    result = search([BOOK], question='invoice" OR (NEAR NOT) * ^col: -paid')
    assert "Invoices must be paid" in best_text([[BOOK]], result)


@given(st.text(st.sampled_from("ab .。\n退款"), max_size=400), st.integers(1, 40), st.integers(0, 39))
def test_no_part_of_a_text_is_lost_when_it_is_split(text: str, max_tokens: int, overlap: int) -> None:
    parts = list(split_text(text, max_tokens, min(overlap, max_tokens - 1)))
    covered = {at for start, end, _ in parts for at in range(start, end)}
    assert all(at in covered for at, character in enumerate(text) if character.strip())
    assert all(tokens <= max_tokens for _, _, tokens in parts)
    assert all(before[0] < after[0] and before[1] < after[1] for before, after in zip(parts, parts[1:], strict=False))


def test_a_passage_begins_with_the_end_of_the_one_before_it() -> None:
    text = "".join(f"Sentence number {number} is here. " for number in range(40))
    (first, second, *_) = split_text(text, 40, 12)
    assert first[1] > second[0]
    assert EstimatingCounter().count(text[second[0] : first[1]]) <= 12


def test_words_of_languages_without_spaces_are_pairs_of_characters() -> None:
    assert list_words("Größe 12.5 von 退款政策, ｆｕｌｌ") == [
        "größe",
        "12",
        "5",
        "von",
        "退款",
        "款政",
        "政策",
        "full",
    ]
    assert list_words("人 a_b") == ["人", "a", "b"]
