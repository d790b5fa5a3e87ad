"""Load a request's media: fetch URLs, extract text from documents, scale images. Each URL is fetched once."""

from app.attachments.loader import AttachmentLimits, AttachmentLoader

__all__ = ["AttachmentLimits", "AttachmentLoader"]
