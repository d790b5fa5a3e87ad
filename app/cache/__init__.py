"""The cache: replies that need no second call to the model, and calls that many callers share."""

from app.cache.cache import Cache
from app.cache.control import MODES, Apply, Control, Mode, control
from app.cache.flight import Place
from app.cache.question import Question, Rules, Source

__all__ = ["MODES", "Apply", "Cache", "Control", "Mode", "Place", "Question", "Rules", "Source", "control"]
