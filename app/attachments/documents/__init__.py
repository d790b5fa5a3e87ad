"""Documents and pictures, read in processes of their own: bytes into text, images into what a model takes."""

from app.attachments.documents.protocol import DocumentLimits
from app.attachments.documents.worker_pool import DocumentWorkers

__all__ = ["DocumentLimits", "DocumentWorkers"]
