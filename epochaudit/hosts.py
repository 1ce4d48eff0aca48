"""What each host recorded about a partition: its rows in its own order, and which topic of the name they are about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cmp_to_key
from typing import Any, Final

from epochaudit.replay.metadata_log import SOURCE as METADATA_LOG

CLIENT_LOG: Final = "client_log"

Event = Mapping[str, Any]  # a row of `epochaudit.replay.partition_history`

_WITHIN_MS: Final[Mapping[str, int]] = {"state_change_log": 0, "request_log": 2}
_DELETES: Final = frozenset({"STOP_REPLICA", "DELETE_TOPICS", "TOPIC_DELETION_COMPLETED", "LOG_DELETION_SCHEDULED"})


def ids_of_copies(copies: Sequence[Event]) -> list[str | None]:
    """State files lie beside partition.metadata, which tells the topic's id."""
    of_folder = {_folder(copy): copy["topic_id"] for copy in copies if copy["topic_id"] is not None}
    return [of_folder.get(_folder(copy)) for copy in copies]


def _folder(copy: Event) -> tuple[int | None, str]:
    return copy["node"], copy["file"].rpartition("/")[0]


def by_host(rows: Iterable[Event]) -> dict[str, list[Event]]:
    """The rows of each host in its own order; processes of hosts only where the partition is theirs, too."""
    hosts: dict[str, list[Event]] = defaultdict(list)
    for row in _whole_requests(rows):
        hosts[host_of(row)].append(row)
    about = {host for host, events in hosts.items() if any(is_of_topic(event) for event in events)}
    return {host: _in_own_order(list(_without_repeats(hosts[host]))) for host in sorted(about)}


def host_of(event: Event) -> str:
    """Who wrote the line: `node 2`, `client c`, or `metadata log`, which belongs to the cluster."""
    if event["source"] == METADATA_LOG:
        return "metadata log"
    if event["source"] == CLIENT_LOG:
        return f"client {event['client_id'] or event['file']}"
    return f"node {'unknown' if event['node'] is None else event['node']}"


def is_of_topic(event: Event) -> bool:
    """It is about the topic, not just about a process."""
    return event["topic"] is not None or event["topic_id"] is not None


def _in_own_order(events: Sequence[Event]) -> list[Event]:
    """Rows of one host: by its clock, and lines of one file in their order; of the metadata log by position.

    Within a millisecond a broker's state changes stand before what follows from them, and requests, logged when they are
    answered, last.
    """
    last: dict[str, int] = defaultdict(int)
    for event in events:
        last[event["file"]] = max(last[event["file"]], _WITHIN_MS.get(event["source"], 1))

    def order(event: Event) -> tuple[object, ...]:
        clock = event["position"] if event["source"] == METADATA_LOG else event["time_ms"]
        place = (last[event["file"]], event["file_order"], event["byte_offset"], event["partition_row"])
        return (-1 if clock is None else clock, *place)

    return sorted(events, key=order)


def _whole_requests(rows: Iterable[Event]) -> Iterator[Event]:
    """CreateTopics as one row: it has one per configuration."""
    settings: dict[tuple[object, ...], list[Event]] = defaultdict(list)
    for row in rows:
        if row["event_type"] == "CREATE_TOPICS":
            settings[row["cluster"], row["file"], row["byte_offset"], row["topic"]].append(row)
        else:
            yield row
    for of_one in settings.values():
        pairs = [f"{row['name']} = {row['value']}" for row in of_one if row["name"] is not None]
        first = dict(of_one[0])
        if pairs:
            first["name"], first["value"] = ", ".join(pairs).split(" = ", 1)
        yield first


def _without_repeats(events: Iterable[Event]) -> Iterator[Event]:
    """Without lines that say again what another line of the host says: of a received request, of a state written, of an epoch known."""
    kept = list(events)
    answered = {
        (row["event_type"], row["correlation_id"], row["controller_id"])
        for row in kept
        if row["source"] == "request_log"
    }
    written = set()
    for row in kept:
        kind = row["event_type"]
        if (kind.removesuffix("_RECEIVED"), row["correlation_id"], row["controller_id"]) in answered and kind.endswith(
            "_RECEIVED"
        ):
            continue
        if kind == "PARTITION_STATE_CHANGED":
            state = (row["controller_epoch"], row["leader_epoch"], row["partition_epoch"], row["leader"])
            if state in written:
                continue
            written.add(state)
        if kind == "CLIENT_EPOCH_SEEN" and row["leader_epoch"] == row["previous_epoch"]:
            continue
        yield row


def ids_in_order(ids: Iterable[str], told: Mapping[str, Sequence[str | None]]) -> list[str]:
    """The ids of the name, in the order in which hosts met them: each host compares on its own."""
    first: dict[str, dict[str, int]] = defaultdict(dict)
    for host, met in told.items():
        for number, id in enumerate(met):
            if id is not None:
                first[host].setdefault(id, number)

    def compared(one: str, other: str) -> int:
        votes = [(met[one] > met[other]) - (met[one] < met[other]) for met in first.values() if {one, other} <= {*met}]
        return sum(votes)

    return sorted(sorted(ids), key=cmp_to_key(compared))


def topics_told(events: Sequence[Event], ids: Sequence[str]) -> list[str | None]:
    """For each row the topic that it is about: where the row states none, what its host stated before and after it.

    Between statements of two topics the deletion of the first parts them; without one it is not told.
    """
    if len(ids) < 2:
        return [ids[0] if ids else None] * len(events)
    stating = [number for number, event in enumerate(events) if _tells_topic_id(event)]
    filled: list[str | None] = []
    following = 0  # of the statements
    for number, event in enumerate(events):
        while following < len(stating) and stating[following] < number:
            following += 1
        before = stating[following - 1] if following else None
        after = stating[following] if following < len(stating) else None
        if event["topic_id"] is not None:
            filled.append(event["topic_id"])
        else:
            filled.append(_between(events, number, before, after, ids))
    return filled


def _tells_topic_id(event: Event) -> bool:
    """The host says which topic it has: not a client that asks for a former one, or lets go of it."""
    return event["topic_id"] is not None and not event["error_code"] and not event["forgotten"]


def _former(event: Event) -> str | None:
    return event["value"] if event["event_type"] == "CLIENT_TOPIC_ID_CHANGED" else None


def _between(
    events: Sequence[Event], number: int, before: int | None, after: int | None, ids: Sequence[str]
) -> str | None:
    if not is_of_topic(events[number]) and (before is not None or after is not None):
        return str(events[before if before is not None else after or 0]["topic_id"])
    if before is None:
        if after is None:
            return None
        following = events[after]
        former = _former(following)
        return former or (following["topic_id"] if following["topic_id"] == ids[0] else None)
    earlier = str(events[before]["topic_id"])
    if after is not None and events[after]["topic_id"] == earlier:
        return earlier
    end = len(events) if after is None else after
    deletions = [at for at in range(before, end) if _deletes(events[at])]
    if deletions:
        if number <= deletions[-1]:
            return earlier
        return None if after is None else str(events[after]["topic_id"])
    return earlier if after is None and earlier == ids[-1] else None


def _deletes(event: Event) -> bool:
    if event["event_type"] == "STOP_REPLICA":
        return bool(event["delete_partition"]) and not event["error_code"]
    return event["event_type"] in _DELETES or (event["event_type"] == "UPDATE_METADATA" and event["leader"] == -2)
