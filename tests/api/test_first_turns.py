"""The first turn of a session costs few calls for each round and function: a coding agent sends hundreds of them."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import app
from agent_bodies import WRITERS, make_conversation

from tests.each_case import each_case
from tests.in_process_gateway import SERVER, ModelServer, Running

FOLDER = str(Path(app.__file__).parent)
ROUNDS, FUNCTIONS = 20, 12


def count_calls(running: Running, path: str, rounds: int, functions: int) -> int:
    """Return how many functions of `app` are called for the first request of a new session, comprehensions too: the
    fewest of three, because timers and what happens once are called between them."""
    return min(_count(running, path, rounds, functions, session) for session in range(3))


def _count(running: Running, path: str, rounds: int, functions: int, session: int) -> int:
    seed = (rounds * 100 + functions) * 10 + session
    raw = WRITERS[path](make_conversation(rounds, functions, seed=seed), "m", stream=True)
    calls = 0

    def on_call(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(FOLDER)

    sys.setprofile(on_call)
    try:
        answered = running.post(path, raw)
    finally:
        sys.setprofile(None)
    assert answered.status == 200
    return calls


@each_case(
    ("path", "of_round", "of_function"),
    [("/v1/messages", 80, 27), ("/v1/responses", 82, 27), ("/v1/chat/completions", 58, 27)],
)
def test_a_round_and_a_function_cost_few_calls(path: str, of_round: int, of_function: int) -> None:
    with Running(SERVER, ModelServer()) as running:
        count_calls(running, path, 1, 1)
        least = count_calls(running, path, ROUNDS, FUNCTIONS)
        rounds = count_calls(running, path, 2 * ROUNDS, FUNCTIONS) - least
        functions = count_calls(running, path, ROUNDS, 2 * FUNCTIONS) - least
    assert rounds <= of_round * ROUNDS, rounds / ROUNDS
    assert functions <= of_function * FUNCTIONS, functions / FUNCTIONS
