"""Counters and histograms that the event loop fills, in the form of prometheus-client's metric families.

prometheus-client's own counters lock a mutex for every figure; these are plain dictionaries, which one thread changes.
Adding to one costs a tenth. What adds to the same row again and again keeps the row.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

LabelValues: TypeAlias = tuple[str, ...]
ReadGauge: TypeAlias = Callable[[], Iterable[tuple[LabelValues, float]]]


class Counter:
    """The sum of one row of a table."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0.0


class Histogram:
    """The observations of one row of a table, counted in buckets. Each bucket includes its upper bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Of the buckets, and of the values above them all."""
        self.total = 0.0
        """The sum of the values."""

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_all(self, values: Iterable[float]) -> None:
        """Count many values, each of them for less than `observe` does."""
        ordered = sorted(values)
        start = 0
        for bucket, bound in enumerate(self.bounds):
            end = bisect_right(ordered, bound, start)
            self.counts[bucket] += end - start
            start = end
        self.counts[-1] += len(ordered) - start
        self.total += sum(ordered)


class CounterTable:
    """Sums by label values. The name ends with `_total`."""

    __slots__ = ("_rows", "help_text", "labels", "name")
    kind = "counter"

    def __init__(self, name: str, help_text: str, labels: Sequence[str]) -> None:
        self.name = name
        self.help_text = help_text
        self.labels = labels
        self._rows: dict[LabelValues, Counter] = {}

    def row(self, values: LabelValues) -> Counter:
        """Return the row of these label values, which is shown as soon as something was added to it."""
        found = self._rows.get(values)
        if found is None:
            found = self._rows[values] = Counter()
        return found

    def add(self, values: LabelValues, amount: float = 1) -> None:
        self.row(values).total += amount

    def collect(self) -> Metric:
        family = CounterMetricFamily(self.name, self.help_text, labels=self.labels)
        for values, row in self._rows.items():
            if row.total:
                family.add_metric(values, row.total)
        return family


class HistogramTable:
    """Observations by label values."""

    __slots__ = ("_bounds", "_rows", "help_text", "labels", "name")
    kind = "histogram"

    def __init__(self, name: str, help_text: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        self.name = name
        self.help_text = help_text
        self.labels = labels
        self._bounds = bounds
        self._rows: dict[LabelValues, Histogram] = {}

    def row(self, values: LabelValues) -> Histogram:
        """Return the row of these label values, which is shown as soon as it has an observation."""
        found = self._rows.get(values)
        if found is None:
            found = self._rows[values] = Histogram(self._bounds)
        return found

    def observe(self, values: LabelValues, value: float) -> None:
        self.row(values).observe(value)

    def collect(self) -> Metric:
        family = HistogramMetricFamily(self.name, self.help_text, labels=self.labels)
        names = [*(f"{bound:g}" for bound in self._bounds), "+Inf"]
        for values, row in self._rows.items():
            buckets = list(zip(names, map(float, accumulate(row.counts)), strict=True))
            if buckets[-1][1]:
                family.add_metric(values, buckets, row.total)
        return family


class GaugeTable:
    """Figures that are read when the metrics are."""

    __slots__ = ("_read", "help_text", "labels", "name")
    kind = "gauge"

    def __init__(self, name: str, help_text: str, labels: Sequence[str], read: ReadGauge) -> None:
        self.name = name
        self.help_text = help_text
        self.labels = labels
        self._read = read

    def collect(self) -> Metric:
        family = GaugeMetricFamily(self.name, self.help_text, labels=self.labels)
        for values, value in self._read():
            family.add_metric(values, value)
        return family
