"""Lines of a Java client's log at DEBUG, as of 3.9: Metadata."""

from __future__ import annotations

from prove.history import (
    EPOCH_IGNORED,
    EPOCH_NOT_KNOWN,
    EPOCH_RAISED,
    EPOCH_SEEN,
    FIRST_EPOCH_SEEN,
    HINT_IGNORED,
    HINT_OF_UNKNOWN_BROKER,
    HINT_TAKEN,
    ClientLine,
)
from prove.rendering.lines import Line, logged


def client_line(event: ClientLine) -> Line:
    """A line of a client's log."""
    who = (
        f"Consumer clientId={event.client_id}, groupId={event.group_id or None}".replace("=None", "=null")
        if event.log != PRODUCERS_LOG
        else f"Producer clientId={event.client_id}"
    )
    text = f"[{who}] {_text(event)}"
    return logged(event.log, event.at, "DEBUG", text, "org.apache.kafka.clients.Metadata", event.id)


PRODUCERS_LOG = "checkout.log"


def _text(event: ClientLine) -> str:
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
