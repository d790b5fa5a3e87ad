"""`Guarding`: what guards do with one request that they have admitted, as the path of the request knows it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from app.chat.admitted import Admitted
from app.chat.attachments import Attachment
from app.chat.events import Fault
from app.chat.messages import ChatRequest, Message
from app.chat.stage import Stage
from app.chat.stream import Reply


class Guarding(Protocol):
    @property
    def traits(self) -> Mapping[str, Any]:
        """What makes the stored replies to equal bodies different."""

    @property
    def reads_files(self) -> bool:
        """Whether servers get the texts of files instead of the files, at which no guard could look."""

    async def admit_files(self, files: Mapping[Any, Attachment]) -> dict[Any, Attachment]:
        """Return the media of the request with the texts of files as the model may have them. Raises ParleyError."""

    async def admit_restored(self, request: ChatRequest, given: Sequence[Message]) -> Admitted:
        """Return a request in which the gateway has put reasoning back into the given messages, as the model may have
        it. Raises ParleyError."""

    def mask_quotes(self, request: Admitted) -> Admitted:
        """Return the request with the values of its files masked where the assistant has quoted them. The texts of
        files are known after the conversation was admitted."""

    def restore_text(self, text: str) -> str:
        """Return a text of a reply as its client gets it."""

    def mask_text(self, text: str) -> str:
        """Return a text that quotes a restored one, with the values masked again."""

    def clean_fault(self, fault: Fault) -> Fault:
        """Return a fault without what a model has generated, if guards look at that."""

    def watch(self, reply: Reply) -> Reply:
        """Return the reply of the model, of which nothing is passed on that the guards have not let pass."""


class GuardedReply(Protocol):
    """What readers of a reply to a request with guards must do with its events."""

    def make_stage(self, *, fails_refused: bool) -> Stage:
        """Return a stage for one reader, which restores masked values, and says that a guard has refused the reply:
        with a failure, or with words of refusal."""

    def seal(self, about: str) -> str:
        """Return what another gateway needs to make the same stages, encrypted. `about` names the reply."""
