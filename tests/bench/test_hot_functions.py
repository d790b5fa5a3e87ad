"""The functions that take most of the CPU time, from sampled stacks."""

from hot_functions import count_samples, make_table
from stacks import Stack, parse

RUN, FEED, WRITE = (
    "run (app/cli.py:1)",
    "Encoder.<locals>.feed (app/formats/base.py:119)",
    "write (app/server/connection.py:7)",
)
STACKS = [Stack([RUN, FEED], 6), Stack([RUN, FEED, WRITE], 3), Stack([RUN], 1)]


def test_stacks_are_read_and_those_with_names_that_are_none_are_left_out() -> None:
    lines = [f"{';'.join(functions)} {samples}" for functions, samples in STACKS]
    broken = [f"{RUN};\0 (\0:1) 4", f"{RUN}; (:-911896928) 4", "no number", f"{RUN};{FEED}", ""]
    assert parse("\n".join([*broken, *lines])) == STACKS


def test_a_sample_counts_for_the_innermost_function() -> None:
    assert count_samples(STACKS) == {FEED: 6, WRITE: 3, RUN: 1}


def test_the_table_shares_the_cpu_time_out_by_samples() -> None:
    lines = make_table("64 clients", count_samples(STACKS), "request", 500.0, 2).splitlines()
    assert lines[0] == "64 clients: 500 CPU-µs for each request; 10 samples of the running Python code."
    assert lines[4:] == [f"| `{FEED}` | 300 | 60.0% |", f"| `{WRITE}` | 150 | 30.0% |"]
