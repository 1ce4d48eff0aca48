"""What each host recorded about a partition: its rows in its own order, and the topic id that each row is about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cmp_to_key
from typing import Any, Final

from epochaudit.kafka.field_values import LEADER_DURING_DELETE
from epochaudit.replay.state.metadata_log import SOURCE as METADATA_LOG

CLIENT_LOG: Final = "client_log"

Event = Mapping[str, Any]  # a row of `epochaudit.timeline.partition_events`

_ONE_START_MS: Final = 1_000  # at most, between the lines that one process logs when it starts
_WITHIN_MS: Final[Mapping[str, int]] = {"state_change_log": 0, "request_log": 2}
_DELETES: Final = frozenset({"STOP_REPLICA", "DELETE_TOPICS", "TOPIC_DELETION_COMPLETED", "LOG_DELETION_SCHEDULED"})


def ids_of_copies(copies: Sequence[Event]) -> list[str | None]:
    """The topic id of each copy of a state file: that of partition.metadata in the same folder, None without one."""
    of_folder = {_folder(copy): copy["topic_id"] for copy in copies if copy["topic_id"] is not None}
    return [of_folder.get(_folder(copy)) for copy in copies]


def _folder(copy: Event) -> tuple[int | None, str]:
    return copy["node"], copy["file"].rpartition("/")[0]


def by_host(rows: Iterable[Event]) -> dict[str, list[Event]]:
    """The rows of each host in its own order. A host whose rows are all about its process is left out."""
    hosts: dict[str, list[Event]] = defaultdict(list)
    for row in _whole_requests(rows):
        hosts[host_of(row)].append(row)
    with_topic = {host for host, events in hosts.items() if any(is_of_topic(event) for event in events)}
    return {host: list(_without_repeats(_in_own_order(hosts[host]))) for host in sorted(with_topic)}


def host_of(event: Event) -> str:
    """Who wrote the line: `node 2`, `client c`, or `metadata log`, which belongs to the cluster."""
    if event["source"] == METADATA_LOG:
        return "metadata log"
    if event["source"] == CLIENT_LOG:
        return f"client {event['client_id'] or event['file']}"
    return f"node {'unknown' if event['node'] is None else event['node']}"


def is_of_topic(event: Event) -> bool:
    """Whether the row is about the topic, not about a process alone."""
    return event["topic"] is not None or event["topic_id"] is not None


def _in_own_order(events: Sequence[Event]) -> list[Event]:
    """Rows of one host by its clock, lines of one file in file order; rows of the metadata log by position.

    Within a millisecond, a broker's state changes come before their consequences, and requests come last, as the request log
    writes them when they are answered.
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
    """The rows, with CreateTopics as one row: the events have one row per configuration."""
    settings: dict[tuple[object, ...], list[Event]] = defaultdict(list)
    for row in rows:
        if row["event_type"] == "CREATE_TOPICS":
            settings[row["cluster"], row["file"], row["byte_offset"], row["topic"]].append(row)
        else:
            yield row
    for of_request in settings.values():
        pairs = [f"{row['name']} = {row['value']}" for row in of_request if row["name"] is not None]
        first = dict(of_request[0])
        if pairs:
            first["name"], first["value"] = ", ".join(pairs).split(" = ", 1)
        yield first


def _without_repeats(events: Sequence[Event]) -> Iterator[Event]:
    """The rows without those that repeat another row of the host: a received request, a written state, a known epoch.

    `events` are in the host's own order. A topic that is created again repeats the states of the one before: these rows stay. A
    process logs several times that it starts, and again when it serves.
    """
    answered = {
        (row["event_type"], row["correlation_id"], row["controller_id"])
        for row in events
        if row["source"] == "request_log"
    }
    written: set[tuple[object, ...]] = set()
    starting: dict[str, int] = {}
    for row in events:
        kind = row["event_type"]
        request = (kind.removesuffix("_RECEIVED"), row["correlation_id"], row["controller_id"])
        if kind.endswith("_RECEIVED") and request in answered:
            continue
        if _deletes(row):
            written.clear()
        if kind == "PROCESS_STARTING":
            before = starting.get(row["name"])
            starting[row["name"]] = row["time_ms"]
            if before is not None and row["time_ms"] - before <= _ONE_START_MS:
                continue
        elif kind == "PROCESS_STARTED" and starting:
            starting = {}
            continue
        if kind == "PARTITION_STATE_CHANGED":
            state = (row["controller_epoch"], row["leader_epoch"], row["partition_epoch"], row["leader"])
            if state in written:
                continue
            written.add(state)
        if kind == "CLIENT_EPOCH_SEEN" and row["leader_epoch"] == row["previous_epoch"]:
            continue
        yield row


def ids_in_order(ids: Iterable[str], stated: Mapping[str, Sequence[str | None]]) -> list[str]:
    """The topic ids of the name, in the order in which most hosts stated them first. `stated`: ids by host, in its own order."""
    first: dict[str, dict[str, int]] = defaultdict(dict)
    for host, of_host in stated.items():
        for number, id in enumerate(of_host):
            if id is not None:
                first[host].setdefault(id, number)

    def compared(left: str, right: str) -> int:
        both = [at for at in first.values() if left in at and right in at]
        return sum((at[left] > at[right]) - (at[left] < at[right]) for at in both)

    return sorted(sorted(ids), key=cmp_to_key(compared))


def stated_topic_ids(events: Sequence[Event], ids: Sequence[str]) -> list[str | None]:
    """The topic id that each row is about; None if it is unknown. `events` are in the host's own order.

    For a row without an id, the ids that its host stated before and after it count. Between two different ids, rows up to the
    deletion of the first topic are about that topic; without a deletion the id is unknown.
    """
    if len(ids) < 2:
        return [ids[0] if ids else None] * len(events)
    stating = [number for number, event in enumerate(events) if _states_topic_id(event)]
    filled: list[str | None] = []
    following = 0  # index in `stating`
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


def _states_topic_id(event: Event) -> bool:
    """Whether the row states the host's current topic id: not a refused request, nor one that drops the topic from a session."""
    return event["topic_id"] is not None and not event["error_code"] and not event["forgotten"]


def _former(event: Event) -> str | None:
    """The topic id that a client's log names as the one before."""
    return event["value"] if event["event_type"] == "CLIENT_TOPIC_ID_CHANGED" else None


def _between(
    events: Sequence[Event], number: int, before: int | None, after: int | None, ids: Sequence[str]
) -> str | None:
    """The topic id of a row that states none; `before` and `after` are the rows next to it that state one."""
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
    return event["event_type"] in _DELETES or (
        event["event_type"] == "UPDATE_METADATA" and event["leader"] == LEADER_DURING_DELETE
    )
