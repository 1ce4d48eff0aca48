"""Lines of state-change.log: ReplicaManager, Partition, ZkMetadataCache and the controller's LeaderAndIsr."""

from __future__ import annotations

from collections.abc import Iterator

from prove.history import (
    LEADER_AND_ISR,
    LEADER_DURING_DELETE,
    STOP_REPLICA,
    UPDATE_METADATA,
    Control,
    Decision,
    Release,
    Start,
    State,
    Stop,
    since,
)
from prove.rendering.lines import STATE_CHANGE, Line, logged
from prove.rendering.request_log import NO_ID


def state_changes(event: Control, release: Release) -> Iterator[Line]:
    """The lines of a broker that handles a control request."""
    if not event.seen:
        return
    texts = [*_handling(event, release)]
    for n, (level, text) in enumerate(texts):
        finishes = text.startswith("Finished")
        at = event.finished if finishes else min(event.handled + n, event.finished)
        yield logged(STATE_CHANGE, at, level, f"[Broker id={event.node}] {text}", "state.change.logger")


def _handling(event: Control, release: Release) -> Iterator[tuple[str, str]]:
    correlation, controller, epoch = event.correlation_id, event.controller_id, event.controller_epoch
    old = f"since its controller epoch {epoch} is old. Latest known controller epoch is {event.latest_controller_epoch}"
    count = f"correlationId {correlation} from controller {controller} for {len(event.partitions)} partitions"
    if event.api == UPDATE_METADATA:
        if event.error_code:
            yield (
                "WARN",
                (
                    f"Received update metadata request with correlation id {correlation} from an old controller {controller} with"
                    f" epoch {epoch}. Latest known controller epoch is {event.latest_controller_epoch}"
                ),
            )
        elif event.partitions:
            deleted = sum(isinstance(p, State) and p.leader == LEADER_DURING_DELETE for p in event.partitions)
            yield (
                "INFO",
                (
                    f"Add {len(event.partitions) - deleted} partitions and deleted {deleted} partitions from metadata cache in"
                    f" response to UpdateMetadata request sent by controller {controller} epoch {epoch} with correlation id {correlation}"
                ),
            )
        return
    name = "StopReplica" if event.api == STOP_REPLICA else "LeaderAndIsr"
    yield "INFO", f"Handling {name} request {count}"
    if event.error_code:
        yield "WARN", f"Ignoring {name} request from controller {controller} with correlation id {correlation} {old}"
    elif event.api == STOP_REPLICA:
        yield from _stops(event)
    else:
        yield from _becomes(event, release)
    if event.api == LEADER_AND_ISR and since(release.version, 2, 7):
        yield "INFO", f"Finished LeaderAndIsr request in {event.finished - event.handled}ms {count}"


def _ignoring(event: Control, request: str, name: tuple[str, int], why: str) -> str:
    return (
        f"Ignoring {request} request{why.partition('|')[0]} from controller {event.controller_id} with correlation id"
        f" {event.correlation_id} epoch {event.controller_epoch} for partition {name[0]}-{name[1]} {why.partition('|')[2]}"
    )


def _stops(event: Control) -> Iterator[tuple[str, str]]:
    for stop, code, held in zip(event.partitions, event.codes, event.held_epochs, strict=True):
        assert isinstance(stop, Stop)
        if not code:
            continue
        equal = stop.leader_epoch == held
        relation = "matches the current leader epoch" if equal else f"is smaller than the current leader epoch {held}"
        why = f" (delete={str(stop.delete).lower()})|since its associated leader epoch {stop.leader_epoch} {relation}"
        yield "INFO" if equal else "WARN", _ignoring(event, "StopReplica", stop.name, why)


def _becomes(event: Control, release: Release) -> Iterator[tuple[str, str]]:
    for state, code, held in zip(event.partitions, event.codes, event.held_epochs or event.codes, strict=True):
        assert isinstance(state, State)
        epoch = f"|since its associated leader epoch {state.leader_epoch}"
        if code == 11 and state.leader_epoch == held:
            yield "INFO", _ignoring(event, "LeaderAndIsr", state.name, f"{epoch} matches the current leader epoch")
        elif code == 11:
            why = f"{epoch} is smaller than the current leader epoch {held}"
            yield "WARN", _ignoring(event, "LeaderAndIsr", state.name, why)
        elif code == 103:
            yield (
                "ERROR",
                (
                    f"Topic ID in memory: {NO_ID[:-1]}w does not match the topic ID for partition"
                    f" {state.topic}-{state.partition} received: {state.topic_id}."
                ),
            )
        elif code == 3:
            replicas = ",".join(map(str, state.replicas))
            why = f"|as itself is not in assigned replica list {replicas}"
            yield "WARN", _ignoring(event, "LeaderAndIsr", state.name, why)
        elif state.name in event.unavailable:
            yield (
                "ERROR",
                (
                    f"Received LeaderAndIsrRequest with correlation id {event.correlation_id} from controller {event.controller_id}"
                    f" epoch {event.controller_epoch} for partition {state.topic}-{state.partition} (last update controller epoch"
                    f" {state.controller_epoch}) but cannot become follower since the new leader {state.leader} is unavailable."
                ),
            )
    for start in sorted(event.starts, key=lambda start: not start.leads):
        yield "INFO", replica_start(start, release)
    for start in event.skipped:
        yield "INFO", _skipped(start)


def _skipped(start: Start) -> str:
    """The text with which a replica takes notice of a leader epoch that is not higher than its own, from 3.3 on."""
    role, state = ("leader", "the leader") if start.leads else ("follower", "a follower")
    topic_id = f"Some({start.topic_id})" if start.topic_id else "None"
    isr = ", ".join(map(str, start.isr))
    high_watermark = (
        f" Current high watermark {start.high_watermark}, ISR [{isr}], adding replicas [] and removing replicas []."
    )
    return (
        f"Skipped the become-{role} state change for {start.topic}-{start.partition} with topic id {topic_id} and partition state"
        f" LeaderAndIsrPartitionState(topicName='{start.topic}', partitionIndex={start.partition}, controllerEpoch=1,"
        f" leader={start.leader}, leaderEpoch={start.leader_epoch}, isr=[{isr}], partitionEpoch={start.partition_epoch},"
        f" replicas=[{isr}], addingReplicas=[], removingReplicas=[], isNew=false, leaderRecoveryState=0)"
        f" since it is already {state} with leader epoch {start.leader_epoch}.{high_watermark * start.leads}"
    )


def replica_start(start: Start, release: Release) -> str:
    """The text with which a replica starts at a leader epoch."""
    name, isr = f"{start.topic}-{start.partition}", ",".join(map(str, start.isr))
    leader = "None" if start.previous_leader is None else f"Some({start.previous_leader})"
    before = f"Previous leader epoch was {start.previous_epoch}."
    if since(release.version, 3, 6):
        before = f"Previous leader {leader} and previous leader epoch was {start.previous_epoch}."
    begins = f"starts at leader epoch {start.leader_epoch} from offset {start.offset} with"
    if start.leads and since(release.version, 3, 3):
        topic_id = f"Some({start.topic_id})" if start.topic_id else "None"
        return (
            f"Leader {name} with topic id {topic_id} {begins} partition epoch {start.partition_epoch}, high watermark"
            f" {start.high_watermark}, ISR [{isr}], adding replicas [] and removing replicas [] . {before}"
        )
    if start.leads:
        return f"Leader {name} {begins} high watermark {start.high_watermark} ISR [{isr}] addingReplicas [] removingReplicas []. {before}"
    if not since(release.version, 3, 3):
        return f"Follower {name} {begins} high watermark {start.high_watermark}. {before}"
    if since(release.version, 3, 6) and not since(release.version, 4, 2):  # it prints what it has just assigned
        before = f"Previous leader Some({start.leader}) and previous leader epoch was {start.leader_epoch}."
    return (
        f"Follower {name} {begins} partition epoch {start.partition_epoch} and high watermark {start.high_watermark}."
        f" Current leader is {start.leader}. {before}"
    )


def decision(event: Decision, release: Release) -> Line:
    """A ZooKeeper controller's line about a partition's new state."""
    state = event.state
    assert state is not None
    isr = ", ".join(map(str, state.isr))
    if since(release.version, 3, 6):
        members = ", ".join(f"BrokerState(brokerId={member}, brokerEpoch=-1)" for member in state.isr)
        rest = (
            f"isrWithBrokerEpoch=List({members}), leaderRecoveryState=RECOVERED, partitionEpoch={state.partition_epoch}"
        )
    elif since(release.version, 3, 3):
        rest = f"isr=List({isr}), leaderRecoveryState=RECOVERED, partitionEpoch={state.partition_epoch}"
    else:
        rest = f"isr=List({isr}), zkVersion={state.partition_epoch}"
    text = (
        f"[Controller id={event.node} epoch={event.controller_epoch}] Changed partition {state.topic}-{state.partition} from"
        f" {event.before} to OnlinePartition with state LeaderAndIsr(leader={state.leader}, leaderEpoch={state.leader_epoch}, {rest})"
    )
    return logged(STATE_CHANGE, event.at, "INFO", text, "state.change.logger", event.id)
