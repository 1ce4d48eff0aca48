"""The frame `quorum_votes`: which votes of a voter are known, and which line states each."""

from __future__ import annotations

from epochaudit.replay.control_plane.quorum_votes import quorum_votes
from tests.replay.histories import Checks, Replay, of_table

replay = Replay(quorum_votes, order=("raft_epoch", "node"))

HEADER = """
| # | event_type | node | file | raft_epoch | replica_id | vote_granted | error_code | request_error_code | in_request | in_response |
|---|---|---|---|---|---|---|---|---|---|---|
"""
# Voter 9 votes for 8 in epoch 5, while the answers to 7 and 6 are not recorded; in epoch 6 only such a request is. An answer without its
# request is none.
VOTES = f"""{HEADER}
| l | RAFT_VOTE_ANSWERED | 9 | a.log | 5 | 8 | true | | | | |
| g | VOTE | 9 | b.log | 5 | 8 | true | 0 | | | |
| u | VOTE | 9 | b.log | 5 | 7 | | | null | | false |
| v | VOTE | 9 | b.log | 5 | 6 | | | null | | false |
| w | VOTE | 9 | b.log | 6 | 7 | | | null | | false |
| x | VOTE | 9 | b.log | 7 | 7 | true | 0 | | false | |
"""


@replay.test
def test_a_vote_is_that_of_the_request_and_unknown_ones_stand_beside_it() -> Checks:
    known, unknown = [row for row in (yield of_table(VOTES)) if row.node == 9]
    assert (known.raft_epoch, known.candidate, known.vote_ref.file, known.other_candidate) == (5, 8, "b.log", None)
    assert (known.other_ref, known.unknown_candidate, known.unknown_ref.byte_offset) == (None, 6, 400)
    assert (unknown.raft_epoch, unknown.candidate, unknown.vote_ref.byte_offset) == (6, None, 500)


@replay.test
def test_a_candidate_has_voted_for_itself() -> Checks:
    askers = [(row.raft_epoch, row.node, row.candidate) for row in (yield of_table(VOTES)) if row.node != 9]
    assert askers == [(5, 6, 6), (5, 7, 7), (5, 8, 8), (6, 7, 7)]
