"""Restores the logging of a test run after a test made an application.

It is a module of its own because tests/conftest.py needs it, which the controller of pytest-xdist loads too: that makes
no application, and need not load any.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def restored_logging() -> Iterator[None]:
    """An application takes the root logger; its handler must not outlive the test's stderr."""
    handlers, level = logging.root.handlers[:], logging.root.level
    try:
        yield
    finally:
        for handler in set(logging.root.handlers) - set(handlers):
            handler.close()
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
