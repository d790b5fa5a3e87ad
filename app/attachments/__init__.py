"""What a request's media become: fetched, read and scaled, all of them at once, each URL once."""

from app.attachments.loader import AttachmentLimits, AttachmentLoader

__all__ = ["AttachmentLimits", "AttachmentLoader"]
