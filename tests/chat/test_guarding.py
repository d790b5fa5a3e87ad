"""What guards do with a request implements what the path of a request asks of them."""

from app.chat.guarding import GuardedReply, Guarding
from app.guards.admission import RequestGuard


def test_the_guard_of_a_request_is_both() -> None:
    def check(guard: RequestGuard) -> tuple[Guarding, GuardedReply]:
        return guard, guard

    names = {"traits", "admit_files", "watch", "make_stage"}
    assert names <= set(dir(RequestGuard))
    assert check is not None
