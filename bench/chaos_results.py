"""What came out of a chaos run: requests by outcome, and everything that must not happen."""

import time
from collections import Counter
from dataclasses import dataclass, field

SHOWN_VIOLATIONS = 30


@dataclass(slots=True)
class Disturbance:
    """Something that was done to a gateway or to Redis, which excuses some failures of requests meanwhile."""

    kind: str
    """kill, stop (with SIGTERM), redis."""
    began: float
    ended: float = float("inf")


@dataclass(slots=True)
class Results:
    outcomes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    disturbances: list[Disturbance] = field(default_factory=list)
    completed_at: list[float] = field(default_factory=list)
    """When each reply was completed."""
    tool_calls: int = 0
    """Those that servers of tools have run."""
    ended_processes: int = 0
    """Those that gateways had started for their tools, and that ended with them."""

    def begin(self, kind: str) -> Disturbance:
        disturbance = Disturbance(kind, time.monotonic())
        self.disturbances.append(disturbance)
        return disturbance

    def add(self, outcome: str, started: float) -> None:
        self.outcomes[outcome] += 1
        if outcome.endswith(": completed") and not outcome.startswith(("resumed", "read again")):
            self.completed_at.append(time.monotonic())

    def violation(self, request_id: str, text: str) -> None:
        self.violations.append(f"{request_id}: {text}" if request_id else text)

    def broken(self, request_id: str, started: float, text: str) -> None:
        """A connection that ended within a response: allowed only while a gateway is killed."""
        self.outcomes["broken connection"] += 1
        if not self.disturbed(started, "kill"):
            self.violation(request_id, f"broken connection: {text}")

    def nginx_error(self, request_id: str, started: float, status: int) -> None:
        """An error that nginx made: allowed only while a gateway is down."""
        if not self.disturbed(started, "kill", "stop"):
            self.violation(request_id, f"nginx answers {status}")

    def not_found(self, request_id: str, started: float) -> None:
        """A reply that cannot be resumed: allowed only if its gateway or Redis had gone."""
        if not self.disturbed(started, "kill", "stop", "redis"):
            self.violation(request_id, "the reply is not found")

    def disturbed(self, started: float, *kinds: str) -> bool:
        """Whether something of these kinds went on at any time since `started`."""
        return any(one.kind in kinds and one.ended >= started for one in self.disturbances)

    def table(self) -> str:
        lines = [f"{'requests':>9}  outcome"]
        lines += [f"{count:9,}  {outcome}" for outcome, count in sorted(self.outcomes.items())]
        lines.append(f"{self.outcomes.total():9,}  in all")
        lines.append(f"{self.tool_calls:9,}  calls reached a server of tools")
        lines.append(f"{self.ended_processes:9,}  processes ran for tools when their gateway ended")
        shown = self.violations[:SHOWN_VIOLATIONS]
        lines += ["", f"{len(self.violations)} violations" + (":" if shown else "")]
        lines += [f"  {text}" for text in shown]
        if len(self.violations) > len(shown):
            lines.append(f"  and {len(self.violations) - len(shown)} more")
        return "\n".join(lines)
