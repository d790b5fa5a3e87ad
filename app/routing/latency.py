"""The recent times to the first token of an upstream or a model, and their quantiles."""

from collections import deque

MAX_SAMPLES = 128


class LatencyWindow:
    """The last MAX_SAMPLES times, in seconds."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=MAX_SAMPLES)

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, seconds: float) -> None:
        self._samples.append(seconds)

    def quantile(self, share: float) -> float | None:
        """Return the smallest time that at least this share of all is not above; None without any."""
        if not self._samples:
            return None
        ordered = sorted(self._samples)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
