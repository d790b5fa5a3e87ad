"""What a caller may ask for by the names of models."""

import pytest
from app.access import ANONYMOUS, Caller, ModelGlobs
from app.errors import Forbidden

from tests.each_case import each_case

QWEN = Caller("alice", "alice", models=ModelGlobs(("qwen*", "qwen3,gpt-4o")))


@each_case(
    ("name", "may"),
    [
        ("qwen3", True),
        ("qwen3,gpt-4o", True),
        ("qwen3, gpt-4o", False),
        ("qwen3@preset/email", False),
        ("qwen@20250514", True),
        ("gpt-4o", False),
    ],
)
def test_a_pattern_allows_no_name_by_which_a_server_chooses_among_several_models(name: str, may: bool) -> None:
    assert QWEN.may_use(name) is may
    assert ANONYMOUS.may_use(name) and Caller("bob", "bob").may_use(name)


def test_files_are_searched_with_a_model_that_the_caller_may_use() -> None:
    QWEN.check_embedding_model("qwen-embed")
    ANONYMOUS.check_embedding_model("other")
    with pytest.raises(Forbidden, match="may not use the embedding model 'other'; it may use: qwen"):
        QWEN.check_embedding_model("other")


def test_the_rights_of_a_caller_say_whether_it_may_use_all_models() -> None:
    assert ANONYMOUS.rights is None
    assert [caller.rights and caller.rights.restricted for caller in (QWEN, Caller("bob", "bob"))] == [True, False]
