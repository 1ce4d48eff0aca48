"""What the clients of a run saw, by their own lists: independent of any log that epochaudit reads."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

Partition = tuple[str, int]
RawRequest = tuple[int, int]  # node and correlation id
RAW_FROM: Final = 900001  # correlation ids of raw requests, which those of Kafka's own nodes and clients do not reach


@dataclass(frozen=True)
class ClientRecord:
    """A record that was acknowledged to a producer, or that a consumer read.

    acks is `all` or `1`, of consumers empty. batch: the number of the producer's batch, null if not stated.
    """

    client: str
    topic: str
    partition: int
    offset: int
    value: str
    acks: str = ""
    batch: int | None = None

    @property
    def place(self) -> Partition:
        return (self.topic, self.partition)

    @property
    def batch_key(self) -> tuple[str, Partition, int | str]:
        """The batch among all; a record of no stated batch is one of its own."""
        return (self.client, self.place, self.value if self.batch is None else self.batch)


@dataclass(frozen=True)
class Truth:
    """The lists of all clients of a run.

    sent: records that producers sent; failed: batches without an answer or with an error, by client and partition.
    stored: what each partition holds at the end: offset -> value.
    refused: errors that clients got, as (client, command, error). codes: the error codes in the answer to each raw request.
    """

    sent: int = 0
    acknowledged: tuple[ClientRecord, ...] = ()
    failed: Mapping[tuple[str, Partition], int] = field(default_factory=dict)
    consumed: tuple[ClientRecord, ...] = ()
    stored: Mapping[Partition, Mapping[int, str]] = field(default_factory=dict)
    refused: tuple[tuple[str, str, str], ...] = ()
    codes: Mapping[RawRequest, tuple[int, ...]] = field(default_factory=dict)

    def is_missing(self, record: ClientRecord) -> bool:
        """The partition does not hold this record at its offset."""
        return self.stored.get(record.place, {}).get(record.offset) != record.value

    def missing(
        self,
        records: Iterable[ClientRecord],
        deleted: Collection[str] = (),
        deleted_below: Mapping[Partition, int] | None = None,
    ) -> list[ClientRecord]:
        """Those that are gone.

        deleted: producers whose records were deleted on purpose, with their topic. deleted_below: the offset below which the records of a
        partition were.
        """
        below = deleted_below or {}
        return [
            one
            for one in records
            if self.is_missing(one)
            and one.value.rsplit("-", 1)[0] not in deleted
            and one.offset >= below.get(one.place, 0)
        ]


def read(folder: Path) -> Truth:
    """The truth of a run, from the files NAME.jsonl that its clients wrote."""
    lists = {
        path.stem: [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        for path in sorted(folder.glob("*.jsonl"))
    }
    return of_events(lists)


def of_events(lists: Mapping[str, list[dict[str, Any]]]) -> Truth:
    """The same of events in memory, by client."""
    acknowledged: list[ClientRecord] = []
    consumed: list[ClientRecord] = []
    failed: dict[tuple[str, Partition], set[object]] = {}
    stored: dict[Partition, dict[int, str]] = {}
    refused: list[tuple[str, str, str]] = []
    codes: dict[RawRequest, tuple[int, ...]] = {}
    sent = 0
    for client, events in lists.items():
        acks = ""
        for one in events:
            if "correlation_id" in one:
                codes[one["node"], one["correlation_id"]] = tuple(one["codes"])
            match one["event"]:
                case "started":
                    acks = one.get("acks", "")
                case "sent":
                    sent += 1
                case "acknowledged":
                    acknowledged.append(_record(client, one, acks))
                case "failed":
                    place = (one["topic"], one["partition"])
                    failed.setdefault((client, place), set()).add(one.get("batch", one.get("value")))
                case "consumed":
                    consumed.append(_record(client, one))
                case "stored":
                    stored.setdefault((one["topic"], one["partition"]), {})[one["offset"]] = one["value"]
                case "end":
                    stored.setdefault((one["topic"], one["partition"]), {})
                case "refused":
                    refused.append((client, one["command"], one["error"]))
    unanswered = {key: len(batches) for key, batches in failed.items()}
    return Truth(sent, tuple(acknowledged), unanswered, tuple(consumed), stored, tuple(refused), codes)


def _record(client: str, event: Mapping[str, Any], acks: str = "") -> ClientRecord:
    return ClientRecord(
        client, event["topic"], event["partition"], event["offset"], event["value"], acks, event.get("batch")
    )
