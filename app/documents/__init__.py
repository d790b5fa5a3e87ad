"""Documents and pictures, read in processes of their own: bytes into text, images into what a model takes."""

from app.documents.limits import DocumentLimits
from app.documents.workshop import Workshop

__all__ = ["DocumentLimits", "Workshop"]
