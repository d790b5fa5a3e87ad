"""A clock that only the work of a test moves."""


class WorkClock:
    def __init__(self) -> None:
        self.now = 0.0
        """Seconds."""

    def __call__(self) -> float:
        return self.now
