"""The functions that take most of the CPU time, from sampled stacks."""

from hot_functions import count_samples, make_table

STACKS = """\
run (app/cli.py);feed (app/formats/base.py) 6
run (app/cli.py);feed (app/formats/base.py);write (app/connection.py) 3
run (app/cli.py) 1
"""


def test_a_sample_counts_for_the_innermost_function() -> None:
    counted = {"feed (app/formats/base.py)": 6, "write (app/connection.py)": 3, "run (app/cli.py)": 1}
    assert count_samples(STACKS) == counted
    assert count_samples("\nno number\n") == {}


def test_the_table_shares_the_cpu_time_out_by_samples() -> None:
    lines = make_table("64 clients", count_samples(STACKS), "request", 500.0, 2).splitlines()
    assert lines[0] == "64 clients: 500 CPU-µs for each request; 10 samples of the running Python code."
    assert lines[4:] == [
        "| `feed (app/formats/base.py)` | 300 | 60.0% |",
        "| `write (app/connection.py)` | 150 | 30.0% |",
    ]
