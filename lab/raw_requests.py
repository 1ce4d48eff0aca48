"""Raw requests to nodes: a sender that collects what each must be answered, and how the report must judge it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lab.cluster import Client
from lab.comparison import FENCED, Judged
from lab.processes import wait_for


@dataclass(frozen=True)
class MetadataState:
    """Registrations by broker id, and partitions by topic and index, as the metadata log or ZooKeeper has them.

    controller, controller_epoch: of ZooKeeper only. The controller is -1 while there is none.
    """

    brokers: Mapping[int, Mapping[str, Any]]
    partitions: Mapping[tuple[str, int], Mapping[str, Any]]
    controller: int | None = None
    controller_epoch: int | None = None

    def broker_epoch(self, broker: int) -> int:
        return int(self.brokers[broker]["broker_epoch"])

    def is_fenced(self, broker: int) -> bool:
        return bool(self.brokers[broker]["fenced"])

    def is_shutting_down(self, broker: int) -> bool:
        return bool(self.brokers[broker]["in_controlled_shutdown"])


def fenced_by(*rules: str) -> list[tuple[str, str]]:
    """The findings of a request that these rules must judge as fenced."""
    return [(rule, FENCED) for rule in rules]


class RawSender:
    """A client of nodes (lab/java/tools/RawRequests.java). `requests` has what it sent so far."""

    def __init__(self, client: Client) -> None:
        self.requests: list[Judged] = []
        self._client = client

    def state(self) -> MetadataState:
        """What the metadata log or ZooKeeper holds by now."""
        found = self._ask("state", lambda one: one["event"] == "state")
        return MetadataState(
            {int(number): broker for number, broker in found["brokers"].items()},
            {(one["topic"], one["partition"]): one for one in found["partitions"]},
            found.get("controller"),
            found.get("controller_epoch"),
        )

    def send(
        self,
        node: int,
        name: str,
        api: str,
        version: int,
        fields: Mapping[str, Any],
        codes: tuple[int, ...],
        findings: Iterable[tuple[str, str]] = (),
        *,
        client_id: str = "raw",
    ) -> Mapping[str, Any]:
        """Send a request, and return its answer.

        fields: by the names of Kafka's schemas in snake_case; those that the version lacks are left out. codes: what Kafka's protocol
        answers, the error code of the request before those of its partitions. findings: see `Judged`.
        """
        text = json.dumps(fields, separators=(",", ":"))
        command = f"send {name.replace(' ', '_')} {node} {client_id} {api} {version} {text}"
        answer = self._ask(command, lambda one: "correlation_id" in one)
        request = Judged(node, answer["correlation_id"], f"{api} {version}: {name}", codes, frozenset(findings))
        self.requests.append(request)
        return answer

    def _ask(self, command: str, answers: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
        """The answer to a command: states of the cluster pass while it is waited for, so it is looked for often."""
        before = len(self._client.events())
        self._client.tell(command)

        def look() -> Mapping[str, Any] | None:
            return next((one for one in self._client.events()[before:] if answers(one)), None)

        return wait_for(f"client raw: {command}", look, 30, pause=0.01)
