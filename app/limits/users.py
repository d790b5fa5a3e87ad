"""Which end users have limits of their own: the first ones of each caller and day, so that names that are invented do
not fill the memory."""

import time
from collections.abc import Callable

from app.chat.token_usage import OTHER_USERS

MAX_USERS = 10_000
"""Users of a caller with limits of their own on one day."""
_DAY_SECONDS = 86_400


class CountedUsers:
    def __init__(self, clock: Callable[[], float] = time.time, most: int = MAX_USERS) -> None:
        """`clock` returns Unix seconds."""
        self._clock = clock
        self._most = most
        self._day = 0
        self._users: dict[str, set[str]] = {}

    def choose_counted(self, caller: str, user: str) -> str:
        """Return the name for which a request of a user counts: its own, or that of all others together."""
        day = int(self._clock() // _DAY_SECONDS)
        if day != self._day:
            self._day = day
            self._users.clear()
        users = self._users.setdefault(caller, set())
        if user not in users:
            if len(users) >= self._most:
                return OTHER_USERS
            users.add(user)
        return user
