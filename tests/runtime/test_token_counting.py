"""Counting tokens by files that the tests write themselves."""

import base64
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from app.chat.messages import TokenCounter
from app.runtime.token_counting import EstimatingCounter, TokenCounters, TokenizersError, load_counter
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers

from tests.each_case import each_case
from tests.effort import examples
from tests.recorded_token_counts import UNITS

COUNTED = [case for case in UNITS if "count" in case]
TRUNCATED = [case for case in UNITS if "max_token" in case]

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
TOKENS = ["hello", " world", "user", "hi", "one", *(f" {word}" for word in WORDS[1:]), "...", "é", " café"]
TOKENS += ["汉字", "😀", "  ", " spaces", "\n\n", "tabs", "✿", "FUNCTION", " a", "Observ", "ation"]


def write_ranks(path: Path) -> Path:
    """All bytes, then each token by its beginnings, so that pairs of bytes lead to it."""
    found: dict[bytes, None] = {bytes([one]): None for one in range(256)}
    for token in TOKENS:
        encoded = token.encode()
        found |= {encoded[:end]: None for end in range(2, len(encoded) + 1)}
    lines = [b"%s %d" % (base64.b64encode(token), rank) for rank, token in enumerate(found)]
    path.write_bytes(b"\n".join(lines) + b"\n\n")
    return path


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> TokenCounter:
    return load_counter(write_ranks(tmp_path_factory.mktemp("ranks") / "qwen.tiktoken"))


def write_json(path: Path) -> Path:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    vocabulary = {token: rank for rank, token in enumerate([*sorted(alphabet), "on", "Ġt", "Ġtw"])}
    model = models.BPE(vocab=vocabulary, merges=[("o", "n"), ("Ġ", "t"), ("Ġt", "w")])
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=50)
    tokenizer.save(str(path))
    return path


@pytest.fixture(scope="module")
def json_file(tmp_path_factory: pytest.TempPathFactory) -> TokenCounter:
    return load_counter(write_json(tmp_path_factory.mktemp("json") / "tokenizer.json"))


@pytest.mark.parametrize("case", COUNTED, ids=lambda case: case["text"])
def test_ranks_count_as_qwen_agent_does(case: dict[str, Any], ranks: TokenCounter) -> None:
    assert ranks.count(case["text"]) == case["count"]


@each_case("case", TRUNCATED, ids=lambda case: f"{case['text'][:3]}-{case['max_token']}")
def test_texts_are_cut_as_qwen_agent_cuts_them(case: dict[str, Any], ranks: TokenCounter) -> None:
    assert ranks.truncate(case["text"], case["max_token"], case["keep_both_sides"]) == case["result"]


def test_a_composed_letter_counts_as_its_parts_do(ranks: TokenCounter) -> None:
    assert ranks.count("e\u0301") == ranks.count("\u00e9") == 1


def test_some_models_count_digits_by_three(tmp_path: Path) -> None:
    by_one = load_counter(write_ranks(tmp_path / "some.tiktoken"))
    assert by_one.count("1234") == 4
    path = write_ranks(tmp_path / "cl100k_base.tiktoken")
    with path.open("ab") as file:
        file.write(b"%s 9999\n" % base64.b64encode(b"123"))
    assert load_counter(path).count("1234") == 2


def test_a_tokenizer_json_counts_by_its_model(json_file: TokenCounter) -> None:
    assert json_file.count("on two") == 3
    assert json_file.count("o" * 100) == 100, "neither cut nor padded as the file says"


def test_a_tokenizer_json_cuts_at_characters(json_file: TokenCounter) -> None:
    assert json_file.truncate("on two two two", 2, keep_both_sides=False) == "on tw"
    assert json_file.truncate("汉字汉字", 3, keep_both_sides=False) == "汉"
    assert json_file.truncate("on two on two on", 8) == "on tw...o on"


def test_no_character_is_cut_in_two(ranks: TokenCounter) -> None:
    assert ranks.count("龍") == 3
    assert ranks.truncate("a龍a", 3, keep_both_sides=False) == "a"
    assert ranks.truncate("龍龍龍", 6) == "...龍"


def test_the_end_of_a_long_text_is_its_own(json_file: TokenCounter) -> None:
    text = "x" * 40_000 + "yz" * 10_000 + "!"
    assert json_file.truncate(text, 10) == "xxx...zyz!"


def test_lone_surrogates_are_counted_too(json_file: TokenCounter, ranks: TokenCounter) -> None:
    for counter in (json_file, ranks, EstimatingCounter()):
        assert counter.count("a\ud800b") >= 2
        assert counter.truncate("a\ud800b" * 40, 5)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("The quick brown fox", 4),
        ("internationalization", 4),
        ("汉字汉字", 4),
        ("2026", 4),
        ("привет", 2),
        ('{"a": 1}', 6),
        ("a\n\n\n    b", 3),
        ("😀😀", 2),
    ],
)
def test_the_estimate_goes_by_script(text: str, tokens: int) -> None:
    assert EstimatingCounter().count(text) == tokens


@examples(25)
@given(st.text(max_size=60), st.integers(0, 30), st.booleans())
def test_the_estimate_keeps_to_the_limit(text: str, limit: int, both: bool) -> None:
    check(EstimatingCounter(), text, limit, both)


_MIXED = st.lists(st.sampled_from([*TOKENS, "<|im_end|>", "e\u0301", "\ud800", "!", "?!", " "]), max_size=20)


@examples(25)
@given(_MIXED.map("".join), st.integers(0, 30), st.booleans())
def test_files_keep_to_the_limit(
    ranks: TokenCounter, json_file: TokenCounter, text: str, limit: int, both: bool
) -> None:
    check(ranks, text, limit, both)
    check(json_file, text, limit, both)


def check(counter: TokenCounter, text: str, limit: int, both: bool) -> None:
    count = counter.count(text)
    cut = counter.truncate(text, limit, both)
    assert counter.count(cut) <= limit
    assert (cut == text) == (count <= limit)
    assert count <= len(text.encode("utf-8", "surrogatepass")) + 1


def test_a_long_text_without_a_blank_is_counted_in_time(ranks: TokenCounter, json_file: TokenCounter) -> None:
    for text in ("x" * 300_000, " " * 300_000):
        assert ranks.count(text) > 0
        assert json_file.count(text) > 0


def test_each_profile_has_its_own_counter_and_the_rest_the_default(tmp_path: Path) -> None:
    own, default = str(write_json(tmp_path / "tokenizer.json")), str(write_ranks(tmp_path / "qwen.tiktoken"))
    counters = TokenCounters([own], default)
    assert counters.get(own).count("hello") == 5
    assert counters.get(None).count("hello") == 1
    assert isinstance(TokenCounters([]).get(None), EstimatingCounter)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", "{}", "is not a valid tokenizer file"),
        ("tokenizer.json", "no json", "is not a valid tokenizer file"),
        ("x.tiktoken", "IQ==", "is not a valid tokenizer file"),
        ("x.tiktoken", "IQ== 0", "255 of the 256 bytes have no rank"),
        ("x.tiktoken", "!!! 0", "is not a valid tokenizer file"),
        ("missing.json", None, "cannot be read"),
        ("missing.tiktoken", None, "cannot be read"),
    ],
)
def test_a_file_that_is_none_is_named_at_start(name: str, content: str | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(TokenizersError) as error:
        TokenCounters([str(tmp_path / name)])
    assert str(tmp_path / name) in str(error.value)
    assert message in str(error.value)


def test_nothing_is_opened_when_no_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("tiktoken", "tokenizers"):
        monkeypatch.setitem(sys.modules, library, None)
    assert TokenCounters([]).get(None).count("a b") == 2


def test_nothing_is_ever_fetched_to_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked for")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refused)
    own, default = str(write_json(tmp_path / "tokenizer.json")), str(write_ranks(tmp_path / "cl100k_base.tiktoken"))
    for counter in (
        TokenCounters([own], default).get(own),
        TokenCounters([own], default).get(None),
        TokenCounters([]).get(None),
    ):
        assert counter.count("hello world") > 0
        assert counter.truncate("hello world " * 9, 5) != ""


def test_several_threads_count_alike(ranks: TokenCounter, json_file: TokenCounter) -> None:
    """Large requests are counted beside each other."""
    texts = [f"hello {number} é 汉字 " * 50 for number in range(40)]
    for counter in (ranks, json_file, EstimatingCounter()):
        count = counter.count
        alone = [count(text) for text in texts]
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(count, texts)) == alone
