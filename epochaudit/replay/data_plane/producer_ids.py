"""Frame `producer_ids`: which producer ids were given out, in blocks to brokers and one by one to producers, and which of them twice.

No clock is needed but for records of the metadata log: a producer id belongs to one producer for ever.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    ALLOCATE_PRODUCER_IDS,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCER_IDS_RECORD,
    PRODUCER_INITIALIZED,
)
from epochaudit.events.views import REF_FIELDS, no_ref, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import NO_BROKER_EPOCH, NO_PRODUCER_ID
from epochaudit.replay.state.metadata_log import in_snapshot, metadata_log

GIVING_IDS: Final = (INIT_PRODUCER_ID, END_TXN, PRODUCER_INITIALIZED, ALLOCATE_PRODUCER_IDS, PRODUCER_IDS_RECORD)

_SUBJECT: Final = ("cluster", "node", "client_id", "correlation_id")
_GIVEN: Final = (
    "event_type",
    "first_producer_id",
    "last_producer_id",
    "given_to",
    "given_ref",
    "other_to",
    "other_ref",
)


def gives_ids() -> Column:
    """The event is not an EndTxn before version 5, whose answer has no producer id."""
    return (F.col("event_type") != END_TXN) | F.col("response_producer_id").isNotNull()


def producer_ids(events: DataFrame) -> DataFrame:
    """One row per producer id that a coordinator gave to a producer, per block that a controller gave to a broker, by its answer and
    by its record. A coordinator's line about a transactional id counts as its answer.

    Needs: the events table. Clock: none; of records, the position in the metadata log. Columns: the subject columns (node = who gave
    it; of a record null), and
      event_type         INIT_PRODUCER_ID, END_TXN or PRODUCER_INITIALIZED of an id, ALLOCATE_PRODUCER_IDS or PRODUCER_IDS_RECORD of a block
      first_producer_id, last_producer_id   the ids. Of a record: the first id of the next block; null.
                         Null without an answer
      given_to           to whom, in words; given_ref: the answer or record
      other_to           another to whom one of the ids was given, in words; null: none is recorded. other_ref: that answer or record
    """
    found = reduce(
        DataFrame.unionByName, (_of_producers(events), _of_brokers(events), _of_records(events), _unanswered(events))
    )
    none = F.lit(None)
    return found.withColumns(
        {
            **{name: none.cast("string") for name in ("topic", "topic_id", "group_id")},
            **{name: none.cast("int") for name in ("partition", "leader_epoch")},
        }
    )


def _of_producers(events: DataFrame) -> DataFrame:
    """One row per producer id. A transactional id is one producer; without one, each request is that of another.

    EndTxn is answered the producer id that goes on, from version 5 on: another one, if it used up the epochs of the one before (KIP-890).
    A coordinator writes a line before it answers an InitProducerId of a transactional id without an error.
    """
    is_line = F.col("event_type") == PRODUCER_INITIALIZED
    rows = of_types(events, INIT_PRODUCER_ID, END_TXN, PRODUCER_INITIALIZED).where(
        (is_line | (F.col("request_error_code") == Errors.NONE)) & (F.col("response_producer_id") != NO_PRODUCER_ID)
    )
    idempotent = F.concat_ws(" ", "node", "connection", "correlation_id")
    owner = F.coalesce(F.concat(F.lit("T"), "transactional_id"), F.concat(F.lit("I"), idempotent))
    named = F.concat(F.lit("transactional id "), F.col("transactional_id"))
    recipient = F.coalesce(
        named, F.concat(F.lit("idempotent producer "), F.col("client_id")), F.lit("an idempotent producer")
    )
    answer = F.struct(
        is_line.alias("is_line"), "time_ms", "node", "client_id", "correlation_id", "event_type", recipient.alias("to"),
        ref().alias("ref"),
    )  # fmt: skip
    by_owner = rows.groupBy("cluster", "response_producer_id", owner.alias("owner")).agg(F.min(answer).alias("answer"))
    of_id = by_owner.groupBy("cluster", "response_producer_id").agg(
        F.min("answer").alias("first"), F.max("answer").alias("last"), F.count("*").alias("owners")
    )
    last, other = F.col("last"), F.when(F.col("owners") > 1, F.col("first"))
    return of_id.select(
        "cluster", *(last[name].alias(name) for name in _SUBJECT[1:]), last["event_type"].alias("event_type"),
        F.col("response_producer_id").alias("first_producer_id"), F.col("response_producer_id").alias("last_producer_id"),
        last["to"].alias("given_to"), last["ref"].alias("given_ref"), other["to"].alias("other_to"), other["ref"].alias("other_ref"),
    )  # fmt: skip


def _of_brokers(events: DataFrame) -> DataFrame:
    """One row per answered block; other: the block that starts no later and reaches furthest."""
    rows = of_types(events, ALLOCATE_PRODUCER_IDS).where(
        (F.col("request_error_code") == Errors.NONE) & (F.col("producer_id_len") > 0)
    )
    rows = rows.withColumns(
        {
            "event_type": F.lit(ALLOCATE_PRODUCER_IDS),
            "first_producer_id": F.col("producer_id_start"),
            "last_producer_id": F.col("producer_id_start") + F.col("producer_id_len") - 1,
            "given_to": _to_broker(),
            "given_ref": ref(),
        }
    )
    before = (
        Window.partitionBy("cluster")
        .orderBy("first_producer_id", "time_ms", "node", "file_order", "byte_offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    furthest = F.max(F.struct("last_producer_id", "given_to", "given_ref")).over(before)
    rows = rows.withColumn("furthest", furthest)
    overlaps = F.col("furthest.last_producer_id") >= F.col("first_producer_id")
    return _given(rows, F.when(overlaps, F.col("furthest")))


def _of_records(events: DataFrame) -> DataFrame:
    """One row per record that gives a block; other: the earlier record with the highest next_producer_id, if it is not lower.

    Records of a migration from ZooKeeper have no broker epoch and give no block: they state what ZooKeeper had given.
    """
    rows = of_types(metadata_log(events), PRODUCER_IDS_RECORD).where(~in_snapshot())
    rows = rows.select("cluster", "position", "next_producer_id", "broker_id", "broker_epoch", *REF_FIELDS).withColumns(
        {"given_to": _to_broker(), "given_ref": ref()}
    )
    before = Window.partitionBy("cluster").orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    highest = F.max(F.struct("next_producer_id", "given_to", "given_ref")).over(before)
    rows = rows.withColumn("highest", highest).where(F.col("broker_epoch") != NO_BROKER_EPOCH)
    rows = rows.withColumns(
        {
            "node": F.lit(None).cast("int"),
            "client_id": F.lit(None).cast("string"),
            "correlation_id": F.lit(None).cast("int"),
            "event_type": F.lit(PRODUCER_IDS_RECORD),
            "first_producer_id": F.col("next_producer_id"),
            "last_producer_id": F.lit(None).cast("bigint"),
        }
    )
    return _given(rows, F.when(F.col("highest.next_producer_id") >= F.col("next_producer_id"), F.col("highest")))


def _unanswered(events: DataFrame) -> DataFrame:
    """One row per request for ids whose answer the log does not print."""
    rows = of_types(events, INIT_PRODUCER_ID, ALLOCATE_PRODUCER_IDS).where(
        F.coalesce("response_producer_id", "producer_id_start").isNull()
    )
    nothing = F.lit(None)
    rows = rows.withColumns(
        {
            "first_producer_id": nothing.cast("bigint"),
            "last_producer_id": nothing.cast("bigint"),
            "given_to": nothing.cast("string"),
            "given_ref": ref(),
        }
    )
    return rows.select(*_SUBJECT, *_GIVEN[:5], nothing.cast("string").alias("other_to"), no_ref().alias("other_ref"))


def _to_broker() -> Column:
    return F.concat(F.lit("broker "), F.col("broker_id"))


def _given(rows: DataFrame, other: Column) -> DataFrame:
    """The rows with _SUBJECT and _GIVEN; other: struct with given_to and given_ref, null for none."""
    columns = {"other_to": other["given_to"], "other_ref": other["given_ref"]}
    return rows.withColumns(columns).select(*_SUBJECT, *_GIVEN)
