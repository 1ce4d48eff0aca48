"""Lines of a Java client's log at DEBUG, as of 3.9: Metadata, SubscriptionState, FetchCollector."""

from __future__ import annotations

from typing import Final

from prove.history import (
    EPOCH_IGNORED,
    EPOCH_NOT_KNOWN,
    EPOCH_RAISED,
    EPOCH_SEEN,
    FIRST_EPOCH_SEEN,
    HINT_IGNORED,
    HINT_OF_UNKNOWN_BROKER,
    HINT_TAKEN,
    OUT_OF_RANGE_RESET,
    POSITION_RESET,
    TRUNCATION_DIVERGED,
    TRUNCATION_RESET,
    ClientLine,
)
from prove.rendering.lines import Line, logged

PRODUCERS_LOG: Final = "checkout.log"
OF_POSITIONS: Final = (TRUNCATION_DIVERGED, TRUNCATION_RESET, OUT_OF_RANGE_RESET, POSITION_RESET)


def client_line(event: ClientLine) -> Line:
    """A line of a client's log."""
    who = f"Consumer clientId={event.client_id}, groupId={event.group_id or 'null'}"
    if event.log == PRODUCERS_LOG:
        who = f"Producer clientId={event.client_id}"
    if event.kind not in OF_POSITIONS:
        return logged(
            event.log, event.at, "DEBUG", f"[{who}] {_of_epoch(event)}", "org.apache.kafka.clients.Metadata", event.id
        )
    name = "FetchCollector" if event.kind == OUT_OF_RANGE_RESET else "SubscriptionState"
    logger = f"org.apache.kafka.clients.consumer.internals.{name}"
    return logged(event.log, event.at, "INFO", f"[{who}] {_of_position(event)}", logger, event.id)


def _of_position(event: ClientLine) -> str:
    name = f"{event.topic}-{event.partition}"
    before, after = _position(event, event.position), _position(event, event.new_position)
    return {
        TRUNCATION_DIVERGED: (
            f"Truncation detected for partition {name} at offset {before}, resetting offset to the first offset known to diverge {after}"
        ),
        TRUNCATION_RESET: f"Truncation detected for partition {name} at offset {before}, resetting offset",
        OUT_OF_RANGE_RESET: f"Fetch position {before} is out of range for partition {name}, resetting offset",
        POSITION_RESET: f"Resetting offset for partition {name} to position {after}.",
    }[event.kind]


def _position(event: ClientLine, position: tuple[int, int] | None) -> str:
    """SubscriptionState.FetchPosition, Metadata.LeaderAndEpoch."""
    offset, epoch = position or (0, -1)
    of_record = f"Optional[{epoch}]" if epoch >= 0 else "Optional.empty"
    leader = f"Optional[127.0.0.1:{9090 + event.leader} (id: {event.leader} rack: null)]"
    return (
        f"FetchPosition{{offset={offset}, offsetEpoch={of_record},"
        f" currentLeader=LeaderAndEpoch{{leader={leader}, epoch={event.leader_epoch}}}}}"
    )


def _of_epoch(event: ClientLine) -> str:
    name, epoch, known = f"{event.topic}-{event.partition}", event.leader_epoch, event.known
    incoming = f"For {name}, incoming leader(LeaderIdAndEpoch{{leaderId={event.leader}, epoch={epoch}}})"
    return {
        FIRST_EPOCH_SEEN: (
            f"Setting the last seen epoch of partition {name} to {epoch} since the last known epoch was undefined."
        ),
        EPOCH_SEEN: f"Updating last seen epoch for partition {name} from {known} to epoch {epoch} from new metadata",
        EPOCH_RAISED: f"Updating last seen epoch from {known} to {epoch} for partition {name}",
        EPOCH_IGNORED: f"Got metadata for an older epoch {epoch} (current is {known}) for partition {name}, not updating",
        EPOCH_NOT_KNOWN: f"Not replacing null epoch with new epoch {epoch} for partition {name}",
        HINT_TAKEN: (
            f"For {name} updating leader information, updated metadata is PartitionMetadata(error=NONE, partition={name},"
            f" leader=Optional[{event.leader}], leaderEpoch=Optional[{epoch}], replicas=1,2,3, isr=1,2, offlineReplicas=)."
        ),
        HINT_IGNORED: (
            f"{incoming} is not-newer than the one in the existing metadata LeaderAndEpoch{{leader=Optional[127.0.0.1:9091"
            f" (id: 1 rack: null)], epoch={known}}}, so ignoring."
        ),
        HINT_OF_UNKNOWN_BROKER: (
            f"{incoming}, the corresponding node information for node-id {event.leader} is missing, so ignoring."
        ),
    }[event.kind]
