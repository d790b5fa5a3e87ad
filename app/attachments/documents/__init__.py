"""Extract text from documents and scale images, in separate worker processes."""

from app.attachments.documents.protocol import DocumentLimits
from app.attachments.documents.worker_pool import DocumentWorkers

__all__ = ["DocumentLimits", "DocumentWorkers"]
