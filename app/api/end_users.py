"""Set the end user of a request, if its caller names users in the body."""

from typing import Any

from app.access import Caller
from app.access.users import find_body_user
from app.api.asgi import Scope


def name_user(scope: Scope, user: Any, metadata: Any) -> Caller:
    """Return the caller of a request, with the user whom the body names by its field `user` or by its metadata: from
    now on it is the caller of the request. A caller that has its user already keeps it."""
    caller: Caller = scope["state"]["caller"]
    if caller.users is not None and caller.users.source.is_in_body and caller.user is None:
        caller = caller.with_user(find_body_user(user, metadata, caller.users.source))
        scope["state"]["caller"] = caller
    return caller
