"""The upstreams of this process, and the choice of one for a request."""

from collections.abc import Iterable, Iterator, Sequence
from typing import cast
from weakref import WeakValueDictionary

from app.routing.refusals import Refusals, RefusedUse
from app.routing.route import Deployment, ModelRoute
from app.routing.strategies import STRATEGIES, Strategy, find_favourite
from app.routing.upstream_state import UpstreamState
from app.upstream.http.client import Target


class PoolMember:
    """One deployment of a route, with the state of its upstream."""

    __slots__ = ("asked", "deployment", "index", "refused_until", "state")

    def __init__(self, index: int, deployment: Deployment, state: UpstreamState, refused_until: float = 0.0) -> None:
        self.index = index
        self.deployment = deployment
        self.state = state
        self.asked = False
        """Whether this request was sent to it."""
        self.refused_until = refused_until
        """Until then it is asked only if no other one can be, because it has refused the gateway's account."""

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def weight(self) -> float:
        return self.deployment.weight

    @property
    def outstanding(self) -> int:
        return self.state.outstanding

    def is_available(self, now: float) -> bool:
        return now >= self.refused_until and self.state.is_available(now)

    def badness(self, now: float) -> tuple[bool, float, int]:
        """Return a key by which the least bad of several unavailable members is the first."""
        unhealthy, seconds, outstanding = self.state.badness(now)
        return unhealthy, max(seconds, self.refused_until - now), outstanding


def make_use(deployment: Deployment, endpoint: str) -> RefusedUse:
    """Return what a refusal of the gateway's account is remembered by."""
    return deployment.target.name, deployment.target.base_url, deployment.model, endpoint


class UpstreamStates:
    """The state of each upstream, by its name. Models that share an upstream share its state.

    A request that began before a reload of the configuration goes on with the addresses of its time, even when it is
    retried. Their states are kept apart for as long as a request uses them.
    """

    def __init__(self, targets: Iterable[Target] = ()) -> None:
        self._states = {target.name: UpstreamState(target.name, target.base_url) for target in targets}
        self._former: WeakValueDictionary[tuple[str, str], UpstreamState] = WeakValueDictionary()
        """Those of other addresses than the present ones, by the name and the address."""
        self.refusals = Refusals()

    def set_targets(self, targets: Iterable[Target]) -> None:
        """Keep the states of these upstreams only. One that has another address than before begins again."""
        before, self._states = self._states, {target.name: self.get(target) for target in targets}
        for state in before.values():
            self._former[state.name, state.address] = state
        self.refusals.clear()

    def get(self, target: Target) -> UpstreamState:
        """Return the state of an upstream."""
        state = self._states.get(target.name)
        if state is not None and state.address == target.base_url:
            return state
        former = self._former.get((target.name, target.base_url))
        if former is not None:
            return former
        made = UpstreamState(target.name, target.base_url)
        if state is None:
            self._states[target.name] = made
        else:
            self._former[target.name, target.base_url] = made
        return made

    def __iter__(self) -> Iterator[UpstreamState]:
        return iter(list(self._states.values()))

    def members(self, route: ModelRoute, endpoint: str = "", caller: str = "") -> list[PoolMember]:
        """Return the members for a request of this caller; `endpoint` is empty for a conversation."""
        return [
            PoolMember(index, row, self.get(row.target), self.refusals.find_end(make_use(row, endpoint), caller))
            for index, row in enumerate(route.deployments)
        ]


def choose_available(
    members: Sequence[PoolMember], strategy: Strategy, prefix: bytes, now: float, roll: float
) -> PoolMember | None:
    """Return one of the available members of the best priority; None if none is available."""
    available = [member for member in members if member.is_available(now)]
    if len(available) <= 1:
        return available[0] if available else None
    priority = min(member.deployment.priority for member in available)
    best = [member for member in available if member.deployment.priority == priority]
    return best[0] if len(best) == 1 else cast(PoolMember, STRATEGIES[strategy](best, prefix, roll))


def count_move(members: Sequence[PoolMember], chosen: PoolMember, prefix: bytes) -> None:
    """Count a request that another upstream takes than the one which has its session or beginning in its cache."""
    priority = min(member.deployment.priority for member in members)
    best = [member for member in members if member.deployment.priority == priority]
    favourite = cast(PoolMember, find_favourite(best, prefix))
    if favourite is not chosen:
        favourite.state.moved_away += 1


def choose_least_bad(members: Sequence[PoolMember], now: float) -> PoolMember:
    """Return the member that should be available first."""
    return min(members, key=lambda member: member.badness(now))
