"""Oracle of the rules of topic ids."""

from __future__ import annotations

from typing import Any

from prove.history import LEADER_AND_ISR, History
from prove.oracle.broker_memory import controls, partitions
from prove.oracle.metadata_image import asked, records
from prove.oracle.verdicts import FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged, place


def ti01(history: History) -> Judged:
    """A LeaderAndIsr with another topic id than the replica's is refused with 103."""
    for event, memory in controls(history, LEADER_AND_ISR):
        for state, code in partitions(event):
            if state.topic_id is None or code == 56:
                continue
            known = memory.ids.get(state.name)
            if known is None:
                certain = state.name in memory.ids or state.is_new
                yield (VIOLATION if code == 103 else PASS if certain else UNVERIFIABLE), place(event, state)
            elif known == state.topic_id:
                yield (VIOLATION if code == 103 else PASS), place(event, state)
            else:
                yield (FENCED if code == 103 else VIOLATION), place(event, state)


def ti03(history: History) -> Judged:
    """An ISR change for a topic that no longer exists is refused with 100."""
    for one in asked(history):
        if one.request.partition_error == UNKNOWN_TOPIC_ID:
            yield FENCED, one.subject
        elif one.request.partition_error == 0:
            yield (VIOLATION if one.partition is None else PASS), one.subject


def ti04(history: History) -> Judged:
    """A name gets another topic id only after its topic was deleted."""
    living: dict[str, str] = {}
    for record in records(history):
        data: Any = record.data
        if record.kind == "REMOVE_TOPIC_RECORD":
            living = {name: topic_id for name, topic_id in living.items() if topic_id != data["topicId"]}
        elif record.kind == "TOPIC_RECORD":
            yield (VIOLATION if data["name"] in living else PASS), (data["topicId"],)
            living[data["name"]] = data["topicId"]


UNKNOWN_TOPIC_ID = 100
