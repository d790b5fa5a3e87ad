"""Which upstreams have refused the gateway's account: its key, its money, or a model that the account has not.

Such an upstream is asked for the model only if no other one can be, for OPEN_SECONDS. Then one request is the trial: if
it is refused too, the time doubles, up to MAX_OPEN_SECONDS; an answer ends it. It says nothing of other models at the
upstream, and nothing of its health.

A refusal may be due to what a caller put into the body, such as credentials of its own. So it holds for this caller
alone, until another caller is refused as well.
"""

from app.routing.upstream_state import JITTER, MAX_OPEN_SECONDS, OPEN_SECONDS

MAX_REFUSALS = 1000
"""Of so many upstreams and models: callers choose the names of models behind a pass-through."""

RefusedUse = tuple[str, str, str, str]
"""The upstream's name, its address, the model's name there, and the endpoint, empty for conversations."""


class _Refusal:
    __slots__ = ("caller", "times", "until")

    def __init__(self, caller: str) -> None:
        self.caller: str | None = caller
        """For whom it holds; None: for all."""
        self.times = 0
        self.until = 0.0

    def holds_for(self, caller: str) -> bool:
        return self.caller is None or self.caller == caller

    def extend(self, now: float, roll: float) -> None:
        self.until = now + min(OPEN_SECONDS * 2.0**self.times, MAX_OPEN_SECONDS) * (1 + JITTER * roll)
        self.times = min(self.times + 1, 16)


class Refusals:
    """What this process knows of refusals. All times are the event loop's; `roll` is a random number below 1."""

    def __init__(self) -> None:
        self._by_use: dict[RefusedUse, _Refusal] = {}
        """The oldest first."""

    def find_end(self, use: RefusedUse, caller: str) -> float:
        """Return until when the upstream is asked last by this caller; a time in the past if it is not."""
        refusal = self._by_use.get(use)
        return 0.0 if refusal is None or not refusal.holds_for(caller) else refusal.until

    def begin(self, use: RefusedUse, caller: str, now: float, roll: float) -> None:
        """A request is sent. If it is the trial, further ones wait for what it brings."""
        refusal = self._by_use.get(use)
        if refusal is not None and refusal.holds_for(caller) and now >= refusal.until:
            refusal.extend(now, roll)

    def on_refused(self, use: RefusedUse, caller: str, now: float, roll: float) -> None:
        refusal = self._by_use.get(use)
        if refusal is None:
            refusal = self._by_use[use] = _Refusal(caller)
            if len(self._by_use) > MAX_REFUSALS:
                del self._by_use[next(iter(self._by_use))]
        elif not refusal.holds_for(caller):
            refusal.caller = None
        if now >= refusal.until:
            refusal.extend(now, roll)

    def on_answered(self, use: RefusedUse) -> None:
        self._by_use.pop(use, None)

    def clear(self) -> None:
        """Forget all: the configuration may have other keys."""
        self._by_use.clear()
