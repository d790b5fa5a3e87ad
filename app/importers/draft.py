"""The configuration that an import makes, and what it did not take."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]
_PLACE = re.compile(r"\[\d+\]")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(slots=True)
class Draft:
    upstreams: dict[str, Row] = field(default_factory=dict)
    models: dict[str, Row] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    """All other settings, by their names at the top level."""
    notes: list[str] = field(default_factory=list)
    """What was not taken, or only in part, each with its path in the file that was read."""

    def note(self, path: str, text: str) -> None:
        line = f"{path}: {text}".encode("utf-8", "replace").decode()  # JSON may have lone surrogates
        if line not in self.notes:
            self.notes.append(line)

    def list_notes(self) -> list[str]:
        """Return the notes; of those that say the same of several rows of a list the first one, with their number."""
        groups: dict[tuple[str, str], list[str]] = {}
        for note in self.notes:
            path, _, text = note.partition(": ")
            groups.setdefault((_PLACE.sub("", path), text), []).append(path)
        return [
            f"{paths[0]}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''}: {text}"
            for (_, text), paths in groups.items()
        ]

    def add_upstream(self, name: str, row: Row) -> str:
        """Add a server unless there is an equal one, and return the name that it has."""
        base = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "server"
        number, name = 1, base
        while name in self.upstreams:
            if self.upstreams[name] == row:
                return name
            number += 1
            name = f"{base}-{number}"
        self.upstreams[name] = row
        return name

    def find_model(self, name: str) -> str | None:
        """Return the model that has this name or alias."""
        if name in self.models:
            return name
        return next((model for model, row in self.models.items() if name in row.get("aliases", ())), None)

    def to_tree(self) -> dict[str, Any]:
        """Return the settings. What TOML has not is left out and noted."""
        tree: dict[str, Any] = dict(self.others)
        for key, rows in (("upstreams", self.upstreams), ("models", self.models)):
            if rows:
                tree[key] = rows
        return {key: self._clean(value, key) for key, value in tree.items()}

    def _clean(self, value: Any, path: str) -> Any:
        if isinstance(value, Mapping):
            found = {str(key): self._clean(item, f"{path}.{key}") for key, item in value.items()}
            return {key: item for key, item in found.items() if item is not None}
        if isinstance(value, list):
            cleaned = (self._clean(item, f"{path}[{number}]") for number, item in enumerate(value))
            return [item for item in cleaned if item is not None]
        if isinstance(value, str | int | float):
            return value
        self.note(path, f"a value of the type {type(value).__name__} cannot be written")
        return None

    def list_variables(self) -> list[str]:
        """Return the names of the environment variables that the configuration needs."""
        return sorted({name for text in _list_texts(self.to_tree()) for name in _VARIABLE.findall(text)})


def _list_texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in _list_texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _list_texts(item)]
    return [value] if isinstance(value, str) else []
