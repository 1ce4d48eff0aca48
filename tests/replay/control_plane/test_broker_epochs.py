"""What a controller granted before a broker registered again, and the voters that one record of the quorum states after another."""

from __future__ import annotations

from pyspark.sql import Row

from epochaudit.replay.control_plane.broker_records import broker_records
from epochaudit.replay.control_plane.metadata import metadata
from epochaudit.replay.control_plane.voter_sets import voter_sets
from tests.replay.histories import Checks, History, Replay, of_table

of_brokers = Replay(broker_records, order=("metadata_offset",))
of_voters = Replay(voter_sets, order=("metadata_offset",))
of_partitions = Replay(metadata, order=("clock",))

GRANTED = """\
| # | event_type | node | metadata_offset | request_error_code | broker_id | broker_epoch | incarnation_id | fenced | should_shut_down |
|---|---|---|---|---|---|---|---|---|---|
| r | REGISTER_BROKER_RECORD |  | 0 |  | 2 | 0 | A | true |  |
| wait | BROKER_HEARTBEAT | 100 |  | 0 | 2 | 0 |  | false | false |
| stale | BROKER_HEARTBEAT | 100 |  | 77 | 2 | 0 |  | true | true |
| first | BROKER_HEARTBEAT | 100 |  | 0 | 2 | 0 |  | true | true |
| then | BROKER_HEARTBEAT | 100 |  | 0 | 2 | 0 |  | true | true |
| same | REGISTER_BROKER_RECORD |  | 1 |  | 2 | 0 | A | true |  |
| again | REGISTER_BROKER_RECORD |  | 2 |  | 2 | 2 | B | true |  |
| other | REGISTER_BROKER_RECORD |  | 3 |  | 2 | 3 | C | true |  |
"""


@of_brokers.test
def test_the_first_heartbeat_that_granted_the_shutdown_of_the_epoch_before() -> Checks:
    rows = yield of_table(GRANTED)
    assert [row.granted_ref and row.granted_ref.line_in_split for row in rows] == [None, None, 4, None]


VOTERS = """\
| # | event_type | metadata_offset | raft_epoch | in_snapshot | leader | voters |
|---|---|---|---|---|---|---|
| s | KRAFT_VOTERS | 0 | 0 | true |  | 9:Z |
| lead | LEADER_CHANGE | 0 | 1 |  | 7 |  |
| a | KRAFT_VOTERS | 1 | 1 |  |  | 1:A,2:B |
| b | KRAFT_VOTERS | 2 | 1 |  |  | 1:X,2:B,3:C |
| c | KRAFT_VOTERS | 3 | 1 |  |  |  |
"""


@of_voters.test
def test_voters_are_compared_with_those_of_the_record_before() -> Checks:
    first, second, unknown = yield of_table(VOTERS)
    assert (first.first, first.earlier_voters, first.node) == (True, None, 7)
    assert (second.added, second.removed, second.earlier_offset) == (["1:X", "3:C"], ["1:A"], 1)
    assert (unknown.first, unknown.voters, unknown.added, unknown.removed) == (False, None, None, None)


LAST_KNOWN = """\
| # | event_type | node | metadata_offset | raft_epoch | name | value | broker_id | broker_epoch | fenced | topic_id | partition | leader \
| leader_epoch | partition_epoch | isr | replicas | elr | last_known_elr | leader_recovery_state |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| kafka | KAFKA_VERSION | 100 |  |  | kafka | {release} |  |  |  |  |  |  |  |  |  |  |  |  |  |
| lead | LEADER_CHANGE |  | 0 | 1 |  |  |  |  |  |  |  | 100 |  |  |  |  |  |  |  |
| r1 | REGISTER_BROKER_RECORD |  | 1 | 1 |  |  | 1 | 1 | true |  |  |  |  |  |  |  |  |  |  |
| p0 | PARTITION_RECORD |  | 2 | 1 |  |  |  |  |  | AAAAAAAAAAAAAAAAAAAAtA | 0 | -1 | 0 | 0 | [] | 1,2 | {elr} | 1 | 0 |
| c | PARTITION_CHANGE_RECORD |  | 3 | 1 |  |  |  |  |  | AAAAAAAAAAAAAAAAAAAAtA | 0 | 1 |  |  | 1 |  | [] | [] | 1 |
| u1 | BROKER_REGISTRATION_CHANGE_RECORD |  | {unfenced} | 1 |  |  | 1 | 1 | false |  |  |  |  |  |  |  |  |  |  |
| d | PARTITION_CHANGE_RECORD |  | 5 | 1 |  |  |  |  |  | AAAAAAAAAAAAAAAAAAAAtA | 0 |  |  |  |  |  |  |  | 0 |
"""


def elects(release: str, elr: str = "1", unfenced: int = 4) -> History:
    """The history in which broker 1 is elected, with that last known list, and unfenced at that offset."""
    return of_table(LAST_KNOWN.format(release=release, elr=elr, unfenced=unfenced))


def elected(rows: list[Row]) -> tuple[bool, bool, bool]:
    """elects_last_known, checks_last_known and returns of the record that elects."""
    (row,) = (row for row in rows if row.elects)
    return row.elects_last_known, row.checks_last_known, row.returns


@of_partitions.test
def test_the_last_known_leader_is_elected_and_unfenced_next() -> Checks:
    unfenced_next, unfenced_later = yield elects("4.0.1"), elects("4.1.0", unfenced=6)
    assert elected(unfenced_next) == (True, False, True)
    assert elected(unfenced_later) == (True, True, False)


@of_partitions.test
def test_with_two_members_in_the_lists_it_is_not_the_last_known_leader() -> Checks:
    assert elected((yield elects("4.0.1", elr="1,2"))) == (False, False, True)
