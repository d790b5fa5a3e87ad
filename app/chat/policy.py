"""`PolicyRefusal`: that a guard of the operator, not the model, has refused a reply."""

from msgspec import Struct


class PolicyRefusal(Struct, frozen=True):
    guard: str
    reason: str
    category: str | None = None

    @property
    def sentence(self) -> str:
        """What the client is told."""
        return write_refusal(self.guard, self.reason)

    def to_dict(self) -> dict[str, str | None]:
        return {"guard": self.guard, "reason": self.reason, "category": self.category}


def write_refusal(guard: str, reason: str) -> str:
    return f"The policy {guard} refused this: {reason.rstrip('.')}."
