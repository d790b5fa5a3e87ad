"""The logging of a test run, as it was before an application was made. Apart from the applications: the process that
shares the tests out among others makes none."""

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
