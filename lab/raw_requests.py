"""Raw requests to a controller: a sender that collects what each must be answered, and how the report must judge it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lab.cluster import Cluster
from lab.comparison import FENCED, Judged
from lab.processes import wait_for


@dataclass(frozen=True)
class MetadataState:
    """Registrations by broker id, and partitions by topic and index, as the metadata log has them."""

    brokers: Mapping[int, Mapping[str, Any]]
    partitions: Mapping[tuple[str, int], Mapping[str, Any]]

    def broker_epoch(self, broker: int) -> int:
        return int(self.brokers[broker]["broker_epoch"])

    def is_fenced(self, broker: int) -> bool:
        return bool(self.brokers[broker]["fenced"])

    def is_shutting_down(self, broker: int) -> bool:
        return bool(self.brokers[broker]["in_controlled_shutdown"])


class RawSender:
    """A client of one controller (lab/java/tools/RawRequests.java). `requests` has what it sent so far."""

    def __init__(self, cluster: Cluster, name: str, controller: int) -> None:
        self.controller = controller
        self.requests: list[Judged] = []
        self._client = cluster.raw_requests(name, controller)

    def state(self) -> MetadataState:
        """What the metadata log holds by now."""
        found = self._ask("state", lambda one: one["event"] == "state")
        return MetadataState(
            {int(number): broker for number, broker in found["brokers"].items()},
            {(one["topic"], one["partition"]): one for one in found["partitions"]},
        )

    def send(
        self, name: str, api: str, version: int, fields: Mapping[str, Any], codes: tuple[int, ...], *fenced_by: str
    ) -> Mapping[str, Any]:
        """Send a request, and return its answer.

        fields: by the names of Kafka's schemas in snake_case; those that the version lacks are left out. codes: what Kafka's protocol
        answers, the error code of the request before those of its partitions. fenced_by: the rules that must judge it as fenced.
        """
        text = json.dumps(fields, separators=(",", ":"))
        answer = self._ask(f"send {name.replace(' ', '_')} {api} {version} {text}", lambda one: "correlation_id" in one)
        findings = frozenset((rule, FENCED) for rule in fenced_by)
        request = Judged(self.controller, answer["correlation_id"], f"{api} {version}: {name}", codes, findings)
        self.requests.append(request)
        return answer

    def _ask(self, command: str, answers: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
        """The answer to a command: states of the cluster pass while it is waited for, so it is looked for often."""
        before = len(self._client.events())
        self._client.tell(command)

        def look() -> Mapping[str, Any] | None:
            return next((one for one in self._client.events()[before:] if answers(one)), None)

        return wait_for(f"client raw: {command}", look, 30, pause=0.01)
