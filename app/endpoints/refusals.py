"""What it means when a server refuses a request that is no conversation."""

from msgspec.structs import replace

from app.chat.events import Fault
from app.endpoints.kinds import PathName

_NOT_SERVED = 501
"""llama.cpp answers it if it was started without `--embeddings` or `--reranking` (tools/server/README.md)."""


def explain_refusal(fault: Fault, endpoint: PathName) -> Fault:
    """Return the fault of a server that does not serve an endpoint, which is no failure of the server; others with the
    parameter that the server names, which is the client's own."""
    if fault.server_param is not None:
        fault = replace(fault, param=fault.server_param)
    if fault.status == _NOT_SERVED:
        return replace(fault, code="unsupported", transient=False)
    if fault.status == 404:
        hint = f"the server may have another path for this: set `paths.{endpoint}` of the upstream"
        return replace(fault, message=f"{fault.message} ({hint})")
    return fault
