"""Counters and histograms that the event loop fills, in the form of prometheus-client's metric families.

prometheus-client's own counters lock a mutex for every figure; these are plain dictionaries, which one thread changes.
Adding to one costs a tenth.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

LabelValues: TypeAlias = tuple[str, ...]
ReadGauge: TypeAlias = Callable[[], Iterable[tuple[LabelValues, float]]]


class CounterTable:
    """Sums by label values. The name ends with `_total`."""

    __slots__ = ("_rows", "help_text", "labels", "name")
    kind = "counter"

    def __init__(self, name: str, help_text: str, labels: Sequence[str]) -> None:
        self.name = name
        self.help_text = help_text
        self.labels = labels
        self._rows: dict[LabelValues, float] = {}

    def add(self, values: LabelValues, amount: float = 1) -> None:
        self._rows[values] = self._rows.get(values, 0.0) + amount

    def collect(self) -> Metric:
        family = CounterMetricFamily(self.name, self.help_text, labels=self.labels)
        for values, total in self._rows.items():
            family.add_metric(values, total)
        return family


class HistogramTable:
    """Observations by label values, counted in buckets. Each bucket includes its upper bound."""

    __slots__ = ("_bounds", "_empty", "_rows", "help_text", "labels", "name")
    kind = "histogram"

    def __init__(self, name: str, help_text: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        self.name = name
        self.help_text = help_text
        self.labels = labels
        self._bounds = bounds
        self._empty = [0.0] * (len(bounds) + 2)
        self._rows: dict[LabelValues, list[float]] = {}
        """The counts of the buckets, of the values above them all, and the sum of the values."""

    def observe(self, values: LabelValues, value: float) -> None:
        row = self._rows.get(values)
        if row is None:
            row = self._rows[values] = self._empty.copy()
        row[bisect_left(self._bounds, value)] += 1
        row[-1] += value

    def collect(self) -> Metric:
        family = HistogramMetricFamily(self.name, self.help_text, labels=self.labels)
        names = [*(f"{bound:g}" for bound in self._bounds), "+Inf"]
        for values, row in self._rows.items():
            buckets: list[tuple[str, float]] = []
            count = 0.0
            for name, number in zip(names, row, strict=False):
                count += number
                buckets.append((name, count))
            family.add_metric(values, buckets, row[-1])
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
