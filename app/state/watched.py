"""A state database that knows whether it could be used last, for the metrics."""

import contextlib
from collections.abc import Iterator
from typing import Literal

from app.state.base import Database, StateError, Statements


class WatchedDatabase:
    """Passes everything on to a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.is_connected = True
        """The last transaction did not fail because of the database."""

    @property
    def kind(self) -> Literal["sqlite", "postgres"]:
        return self._database.kind

    @property
    def name(self) -> str:
        return self._database.name

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Statements]:
        with self._watched(), self._database.transaction() as statements:
            yield statements

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Statements]:
        with self._watched(), self._database.snapshot() as statements:
            yield statements

    def migrate(self, to: int | None = None) -> list[str]:
        with self._watched():
            return self._database.migrate(to)

    def version(self) -> int:
        with self._watched():
            return self._database.version()

    def empty_log(self) -> bool:
        with self._watched():
            return self._database.empty_log()

    def close(self) -> None:
        self._database.close()

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except StateError:
            self.is_connected = False
            raise
        self.is_connected = True
