"""Make missing ids from the content that they identify: identical conversations then give identical messages."""

ID_DIGITS = 22
"""How many digits of a digest an id has."""


class UniqueIds:
    """The ids of the messages of one list. An id that is repeated gets a number."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}
        """The last number that was tried for each repeated id: all lower ones are used."""

    def find(self, id: str) -> str:
        """Return the id, numbered if it is used."""
        if id not in self._used:
            return id
        count = self._counts.get(id, 2)
        while (found := f"{id}_{count}") in self._used:
            count += 1
        self._counts[id] = count
        return found

    def add(self, id: str) -> None:
        self._used.add(id)
