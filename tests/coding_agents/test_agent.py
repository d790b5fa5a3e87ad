"""What all coding agents have in common."""

from app.coding_agents import AGENT_NAMES
from app.coding_agents.agent import ServedModel, has_option
from app.coding_agents.agents import AGENTS

from tests.each_case import each_case


def test_the_command_line_knows_every_agent() -> None:
    assert tuple(AGENTS) == AGENT_NAMES


@each_case(
    "model, reply, compact",
    [
        (ServedModel("m", 32768), 8192, 24576),
        (ServedModel("m", 32768, 4096), 4096, 28672),
        (ServedModel("m", 32768, 20000), 8192, 24576),
        (ServedModel("m", 200000), 8192, 191808),
        (ServedModel("m", None, 4096), 4096, None),
        (ServedModel("m"), None, None),
    ],
)
def test_a_reply_has_at_most_a_quarter_of_the_window(
    model: ServedModel, reply: int | None, compact: int | None
) -> None:
    assert (model.reply_tokens, model.compact_at) == (reply, compact)


def test_the_install_line_names_a_package_and_no_host() -> None:
    for agent in AGENTS.values():
        assert agent.install_line == f"npm install -g {agent.package}"
        assert "://" not in agent.install_line


@each_case(
    "words, expected",
    [(("--model", "m"), True), (("--model=m",), True), (("-m",), True), (("--models",), False), ((), False)],
)
def test_an_option_is_found_in_both_forms(words: tuple[str, ...], expected: bool) -> None:
    assert has_option(words, "--model", "-m") is expected
