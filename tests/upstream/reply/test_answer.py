"""What a client reads about a reply without an answer."""

from app.chat.events import Finish
from app.upstream.reply.answer import add_empty_warning

from tests.each_case import each_case


@each_case(
    ("finish", "warning"),
    [
        (
            Finish("length"),
            "the reply reached its limit of tokens before it had an answer: it has no text and no call, at most "
            "reasoning; raise max_tokens",
        ),
        (
            Finish("stop", {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}, "eos"),
            "the model's reply is empty: it has no text and no call, at most reasoning, although the model server "
            "counted 3 tokens of output and gave the finish reason 'eos'; it is not cached",
        ),
        (
            Finish("stop"),
            "the model's reply is empty: it has no text and no call, at most reasoning; it is not cached",
        ),
    ],
    ids=["at its limit of tokens", "with a usage and a finish reason", "without either"],
)
def test_the_warning_of_an_empty_reply_says_what_the_server_sent(finish: Finish, warning: str) -> None:
    found = add_empty_warning(finish, reasoning=True)
    assert found.warnings == (warning,)
    assert not found.cacheable
