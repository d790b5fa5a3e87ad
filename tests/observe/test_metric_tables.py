"""Counters and histograms, as Prometheus defines them."""

import math

from app.observe.metric_tables import CounterTable, GaugeTable, Histogram, HistogramTable


def test_a_bucket_includes_its_upper_bound_and_all_smaller_values() -> None:
    table = HistogramTable("x_seconds", "X.", ("a",), (0.1, 0.5, 1.0))
    for value in (0.0, 0.1, 0.100001, 0.5, 1.0, 7.0):
        table.observe(("one",), value)
    table.observe(("two",), 0.2)
    found = {
        (sample.name, sample.labels["a"], sample.labels.get("le")): sample.value for sample in table.collect().samples
    }
    assert [found["x_seconds_bucket", "one", bound] for bound in ("0.1", "0.5", "1", "+Inf")] == [2, 4, 5, 6]
    assert [found["x_seconds_bucket", "two", bound] for bound in ("0.1", "0.5", "1", "+Inf")] == [0, 1, 1, 1]
    assert (found["x_seconds_count", "one", None], round(found["x_seconds_sum", "one", None], 6)) == (6, 8.700001)


def test_a_counter_adds_by_its_labels() -> None:
    table = CounterTable("x_total", "X.", ("a", "b"))
    for values, amount in ((("1", "2"), 1.0), (("1", "2"), 2.5), (("2", "1"), 1.0)):
        table.add(values, amount)
    samples = table.collect().samples
    assert [(sample.name, sample.labels, sample.value) for sample in samples] == [
        ("x_total", {"a": "1", "b": "2"}, 3.5),
        ("x_total", {"a": "2", "b": "1"}, 1.0),
    ]


def test_a_gauge_is_read_each_time() -> None:
    readings = iter([[(("u",), 1.0)], [(("u",), 2.0), (("v",), 3.0)]])
    table = GaugeTable("x", "X.", ("a",), lambda: next(readings))
    assert [len(table.collect().samples) for _ in range(2)] == [1, 2]


def test_values_that_are_counted_together_are_in_the_same_buckets_as_one_by_one() -> None:
    bounds = (0.1, 0.5, 1.0)
    values = [0.7, 0.1, 2.0, 0.0, 0.5, 1.0, 0.11, 0.5]
    together, one_by_one = Histogram(bounds), Histogram(bounds)
    together.observe_all(values)
    together.observe_all([])
    for value in values:
        one_by_one.observe(value)
    assert together.counts == one_by_one.counts
    assert math.isclose(together.total, one_by_one.total)
