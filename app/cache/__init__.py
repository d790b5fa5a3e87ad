"""The cache: replies that need no second call to the model, and calls that many callers share."""

from app.cache.cache import Cache, Question, Rules, Source
from app.cache.control import Control, control
from app.cache.flight import Place

__all__ = ["Cache", "Control", "Place", "Question", "Rules", "Source", "control"]
