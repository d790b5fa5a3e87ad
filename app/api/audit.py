"""The audit log: a line for each action of an administrator."""

import logging
from typing import Any

from fastapi import Request

log = logging.getLogger("parley.audit")


def name_admin(request: Request) -> str:
    """Return the name of the administrator's key; `server.admin_key` has none."""
    return request.state.caller.name or "(server.admin_key)"


def log_admin_action(request: Request, action: str, subject: str, **details: Any) -> None:
    """Log what an administrator did, with whose key, to what, from which address. The details hold no secret."""
    state = request.state
    fields = {
        "action": action,
        "subject": subject,
        "admin": name_admin(request),
        "client": request.client.host if request.client else "",
        "request_id": state.request_id,
    }
    log.info("%s %s", action, subject, extra={"fields": fields | details})
