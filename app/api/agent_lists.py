"""What lists of models say to agents: context windows that the servers list, and Codex's list.

A server is asked for its list only for the list of an agent. Replies to Codex have the ETag of its list, so that it
reads the list after a change of the configuration; that waits for no server.
"""

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import Any

from app.access import Caller
from app.api.live_configuration import ListEtag, LiveConfiguration
from app.config.registry import ModelRegistry
from app.formats.agent_models import make_etag, write_codex_models
from app.upstream.catalog import Catalog
from app.upstream.http.client import Target, UpstreamClient

LIST_SECONDS = 2.0
"""How long servers are waited for: Codex waits 5 seconds for its list, Claude Code 3."""
MAX_KEPT_ETAGS = 256

Windows = Mapping[str, Mapping[str, int]]
"""The context windows that each server lists, by its name and the model's name there."""


class AgentLists:
    def __init__(self, client: UpstreamClient) -> None:
        self._client = client
        self._catalogs: dict[str, Catalog] = {}
        """That of each server by its name."""

    async def read(self, live: LiveConfiguration) -> tuple[list[str], Windows]:
        """Return the names of all models, and the windows that their servers list. What a server does not answer in
        LIST_SECONDS is left out."""
        registry, catalog = live.registry, live.catalog
        targets = registry.list_window_targets(registry.names())
        if catalog is not None and all(target.name != catalog.target.name for target in targets):
            targets = [*targets, catalog.target]
        catalogs = self._find_catalogs(targets, catalog)
        waits: list[Coroutine[Any, Any, object]] = [one.windows() for one in catalogs]
        if waits:
            tasks = [asyncio.ensure_future(wait) for wait in waits]
            try:
                await asyncio.wait(tasks, timeout=LIST_SECONDS)
            finally:
                for task in tasks:
                    task.cancel()  # the list itself is fetched to its end
        listed = {one.target.name: one.known_windows or {} for one in catalogs}
        return _join_names(registry, catalog), listed

    def find_etag(self, live: LiveConfiguration, caller: Caller) -> str | None:
        """Return the ETag of Codex's list for this caller; None while a server has not answered yet, or if there is no
        such list."""
        if not live.settings.agents.codex_models:
            return None
        catalog = live.catalog
        catalogs = self._find_catalogs(live.registry.list_window_targets(live.registry.models()), catalog)
        windows = [one.known_windows for one in catalogs]
        for one in (*catalogs, *(() if catalog is None else (catalog,))):
            if one.known_windows is None:
                one.start_fetch()
        listed = tuple([window for window in windows if window is not None])
        names = None if catalog is None else catalog.known_names
        if len(listed) < len(windows) or (catalog is not None and names is None):
            return None
        kept = live.codex_etags.get(caller.models)
        if kept is not None and kept.names is names and _are_same(kept.listed, listed):
            return kept.value
        by_name = {one.target.name: window for one, window in zip(catalogs, listed, strict=True)}
        value = make_etag(write_models(live, caller.select_models(_join_names(live.registry, catalog)), by_name))
        if len(live.codex_etags) >= MAX_KEPT_ETAGS:
            live.codex_etags.clear()
        live.codex_etags[caller.models] = ListEtag(names, listed, value)
        return value

    def _find_catalogs(self, targets: Sequence[Target], passthrough: Catalog | None) -> list[Catalog]:
        return [self._find_catalog(target, passthrough) for target in targets]

    def _find_catalog(self, target: Target, passthrough: Catalog | None) -> Catalog:
        if passthrough is not None and passthrough.target == target:
            return passthrough
        found = self._catalogs.get(target.name)
        if found is None or found.target != target:
            found = self._catalogs[target.name] = Catalog(target, self._client)
        return found

    async def aclose(self) -> None:
        for catalog in self._catalogs.values():
            await catalog.aclose()


def _are_same(kept: Collection[object], given: Collection[object]) -> bool:
    return len(kept) == len(given) and all(one is other for one, other in zip(kept, given, strict=True))


def _join_names(registry: ModelRegistry, catalog: Catalog | None) -> list[str]:
    listed = () if catalog is None else catalog.known_names or ()
    return list(dict.fromkeys([*registry.names(), *listed]))


def write_models(live: LiveConfiguration, names: Sequence[str], windows: Windows) -> list[dict[str, Any]]:
    """Return Codex's entries of these models. An alias has none."""
    registry = live.registry
    routes = [(name, registry.find(name)) for name in names]
    models = [name for name, route in routes if route is not None and route.model == name]
    return write_codex_models([registry.describe_for_agents(name, windows) for name in models], live.codex_instructions)
