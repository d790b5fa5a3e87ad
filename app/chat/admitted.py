"""`Admitted`: a request that its guards have let pass, or that has none.

`Gateway.prepare`, `load_media` and `ask_token_count` take no other: so mypy finds a path on which a request was not
shown to the guards. `app.guards` calls `mark_admitted`, and for requests without guards few places of `app.api` and
`app.responses_api`, which a test names.
"""

from typing import TYPE_CHECKING, cast

from app.chat.messages import ChatRequest

if TYPE_CHECKING:

    class Admitted(ChatRequest, frozen=True):
        """For types only: the request itself is the same object."""

else:
    Admitted = ChatRequest


def mark_admitted(request: ChatRequest) -> Admitted:
    return cast(Admitted, request)
