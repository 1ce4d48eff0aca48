"""Frame `producer_requests`: requests of transactional producers, with the producer epochs that their coordinator had given out before.

A coordinator writes a producer epoch to the transaction log before it answers with it. From then on it must refuse every lower one, and
so must each later coordinator of the transactional id. Clock: the coordinator's host.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCER_INITIALIZED,
)
from epochaudit.events.times import SLACK_MS
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.api_versions import EPOCH_BUMP_END_TXN_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import NO_PRODUCER_ID
from epochaudit.replay.data_plane.coordinator_logs import TRANSACTION_STATE, with_coordinator_log
from epochaudit.replay.state.late_lines import binding_times

OF_TRANSACTIONS: Final = (INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, PRODUCER_INITIALIZED)

_COLUMNS: Final = (
    "cluster", "node", "event_type", "topic", "topic_id", "partition", "client_id", "group_id", "correlation_id", "api_version",
    "transactional_id", "producer_id", "producer_epoch", "response_producer_id", "response_producer_epoch", "time_ms", "arrival_ms",
)  # fmt: skip
_PRODUCER: Final = ("cluster", "transactional_id", "response_producer_id", "response_producer_epoch")


def producer_requests(events: DataFrame) -> DataFrame:
    """One row per InitProducerId, AddOffsetsToTxn, EndTxn with a transactional id, and per partition of AddPartitionsToTxn; also one per
    line of a coordinator about an InitProducerId whose request is not recorded.

    Needs: the events table. Requests that keep a prepared transaction (KIP-939) are left out. A coordinator prepares no second answer for a
    transactional id before it has written the first one, so that of lines a second apart the later one has the later answer. Columns: the
    subject columns (node = the coordinator), those of the request, and
      producer_error_code   the answer's code: of the partition for AddPartitionsToTxn
      request_ref        the request's line
      expects            the request states the producer's id and epoch; null: only the line is recorded, which does not tell
      given_epoch        the highest epoch that this node had given to the transactional id with this producer id, a second before the
                         request arrived; null: none. given_ref: that answer
      accepted_epoch     the highest epoch with which this node had accepted a request of `_accepted` before the request arrived; null: none
                         is recorded, given_epoch shows as much, or the request states as high an epoch. accepted_ref: the first such
                         request
      least_epoch        the lowest epoch that it may accept since: a lost answer may be asked for again, see `_least_epochs`
      lowest_epoch       the lowest epoch that this node gave to the transactional id with this producer id, at any time; null: none. A
                         producer that states an epoch has been given it before
      repeated_ref       given_ref, if this answer to InitProducerId gives no higher epoch than given_epoch; used_ref: the same of
                         accepted_ref
      given_id           the producer id that it had given last before the request arrived; other_id_ref: that answer, if it gave another
                         id than the request states
      replaced           it had given the request's producer id before that one
      recent_epoch, recent_ref   the highest epoch that replaced the stated one, and the answer that shows it, if that was written less
                         than a second before the request arrived and nothing shows a replacement before; else null. If the
                         request states none, or only the line is recorded: the highest epoch that is no lower than the answered one
      recent_id, recent_id_ref   the same of the producer id that was given last
      first_ref          another answer, of any node, that gives what this answer to InitProducerId gives, where one of the two
                         requests did not state an epoch; null: none is recorded. An EndTxn gives an epoch, too (KIP-890). Of a line any
                         other answer or line that gives the same
      coordinator_log, lossy_election_ref, lossy_isr_ref   see `with_coordinator_log`: of __transaction_state
    """
    rows = of_types(events, *OF_TRANSACTIONS).where(
        F.col("transactional_id").isNotNull() & ~holds(F.col("keep_prepared_txn"))
    )
    of_partition, is_line = (F.col("event_type") == name for name in (ADD_PARTITIONS_TO_TXN, PRODUCER_INITIALIZED))
    code = F.when(of_partition, F.col("error_code")).otherwise(F.col("request_error_code"))
    expects = holds(F.col("producer_id") != NO_PRODUCER_ID)
    rows = rows.withColumn("arrival_ms", F.when(is_line, F.col("time_ms")).otherwise(F.col("arrival_ms"))).select(
        *_COLUMNS, F.when(is_line, F.lit(Errors.NONE)).otherwise(code).alias("producer_error_code"),
        ref().alias("request_ref"), F.when(~is_line, expects).alias("expects"), F.lit(None).cast("int").alias("leader_epoch"),
    )  # fmt: skip
    rows = _without_repeats(rows)
    rows = _with_given(rows).join(F.broadcast(_given_again(rows)), [*_PRODUCER, "request_ref"], "left")
    return with_coordinator_log(rows, events, TRANSACTION_STATE)


def _without_repeats(rows: DataFrame) -> DataFrame:
    """The rows without the lines about answers that the same node's request log has: written while the request was worked on."""
    is_line = F.col("event_type") == PRODUCER_INITIALIZED
    from_ms = F.coalesce("arrival_ms", "time_ms") - SLACK_MS
    answers = rows.where((F.col("event_type") == INIT_PRODUCER_ID) & _gives()).select(
        *_PRODUCER, "node", from_ms.alias("from_ms"), (F.col("time_ms") + SLACK_MS).alias("until_ms")
    )
    lines, found = rows.where(is_line).alias("line"), answers.alias("answer")
    alike = [F.col(f"line.{name}") == F.col(f"answer.{name}") for name in (*_PRODUCER, "node")]
    while_answered = F.col("line.time_ms").between(F.col("answer.from_ms"), F.col("answer.until_ms"))
    return rows.where(~is_line).unionByName(lines.join(found, [*alike, while_answered], "left_anti"))


def _gives() -> Column:
    """The answer gives a producer id and epoch. Needs: event_type, producer_error_code, response_producer_id."""
    given = (F.col("producer_error_code") == Errors.NONE) & (F.col("response_producer_id") != NO_PRODUCER_ID)
    return holds(given)


def _least_epochs() -> dict[str, Column]:
    """Of an answer that gives an epoch: for each kind of later request the lowest epoch that may be accepted.

    EndTxn 5 may be sent again with the epoch before the one that it was answered. InitProducerId may be sent again with the epoch
    before; but not if it had not stated one, as it then ends what came before (TransactionMetadata.prepareIncrementProducerEpoch).
    """
    epoch = F.col("response_producer_epoch")
    initialised = F.col("event_type").isin(INIT_PRODUCER_ID, PRODUCER_INITIALIZED)
    least = {
        "for_adding": epoch,
        "for_ending": F.when(initialised, epoch).otherwise(epoch - 1),
        "for_initialising": F.when(initialised & ~F.col("expects"), epoch).otherwise(epoch - 1),
    }
    return {
        name: F.when(F.col("gives"), F.struct(one.alias("least"), epoch.alias("epoch"), F.col("request_ref").alias("ref")))
        for name, one in least.items()
    }  # fmt: skip


def _accepted(rows: DataFrame) -> DataFrame:
    """One row per (coordinator, transactional id, producer id, epoch) of accepted requests that prove the epoch: it was the coordinator's.

    AddPartitionsToTxn, AddOffsetsToTxn and EndTxn before version 5 are accepted in no other epoch
    (TransactionCoordinator.handleAddPartitionsToTransaction, handleVerifyPartitionsInTransaction, endTransaction).
    Columns: of_id, the producer id; epoch; time_ms and request_ref of the first such request.
    """
    proves = F.col("event_type").isin(ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN) | (
        (F.col("event_type") == END_TXN) & (F.col("api_version") < EPOCH_BUMP_END_TXN_VERSION)
    )
    accepted = rows.where(proves & F.col("expects") & (F.col("producer_error_code") == Errors.NONE))
    of_id, epoch = F.col("producer_id").alias("of_id"), F.col("producer_epoch").alias("epoch")
    first = accepted.groupBy("cluster", "node", "transactional_id", of_id, epoch).agg(
        F.min(F.struct("time_ms", "request_ref")).alias("first")
    )
    return first.select("*", "first.*").drop("first")


def _points(rows: DataFrame) -> DataFrame:
    """The rows (asks) at their arrival, and twice what binds a producer id at a coordinator. Adds of_id, at_ms, recent, newest, since.

    Each answer that gives an epoch, and the first accepted request of each epoch, stands at both `binding_times`.
    """
    request_id = F.when(F.col("expects"), F.col("producer_id")).otherwise(F.col("response_producer_id"))
    used = F.struct("epoch", F.col("request_ref").alias("ref")).alias("used")
    asks, gives = F.lit(True).alias("asks"), F.lit(True).alias("gives")
    asked = rows.select("*", request_id.alias("of_id"), F.col("arrival_ms").alias("at_ms"), asks)
    answers = rows.where(_gives()).select("*", F.col("response_producer_id").alias("of_id"), binding_times(), gives)
    accepted = _accepted(rows).select("cluster", "node", "transactional_id", "of_id", binding_times(), used)
    newest = F.struct("at_ms", "arrival_ms", F.col("of_id").alias("id"), F.col("request_ref").alias("ref"))
    points = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), (asked, answers, accepted))
    return points.withColumns(
        {**_least_epochs(), "newest": F.when(F.col("gives"), newest), "since": F.when(F.col("gives"), F.col("at_ms"))}
    )


def _with_given(rows: DataFrame) -> DataFrame:
    """Adds the columns given_epoch to recent_id_ref of `producer_requests`. Grain unchanged."""
    in_order = ("at_ms", F.desc_nulls_last("asks"))
    of_producer = Window.partitionBy("cluster", "node", "transactional_id").orderBy(*in_order)
    of_id = Window.partitionBy("cluster", "node", "transactional_id", "of_id").orderBy(*in_order)
    ever = of_id.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    until_now = (Window.unboundedPreceding, Window.currentRow)
    windows = dict.fromkeys((*_least_epochs(), "used"), of_id) | {"newest": of_producer}
    latest = {
        f"{prefix}{name}": F.max(F.when(counts, F.col(name))).over(window.rowsBetween(*until_now))
        for prefix, counts in (("", ~F.col("recent")), ("recent_", F.col("recent")))
        for name, window in windows.items()
    }
    points = _points(rows).withColumns(
        {
            **latest,
            "lowest_epoch": F.min(F.when(F.col("gives"), F.col("response_producer_epoch"))).over(ever),
            "since": F.min(F.when(~F.col("recent"), F.col("since"))).over(of_id.rowsBetween(*until_now)),
        }
    )
    points = points.where("asks").withColumns({"given": _given_to_kind(), "least_used": _least_used()})
    shows_more = F.coalesce(F.col("least_used") > F.col("given.least"), F.lit(True))
    states = holds(F.col("expects"))
    accepted_newer = shows_more & (~states | (F.col("producer_epoch") < F.col("least_used")))
    repeats_used = F.col("used.epoch") >= F.col("response_producer_epoch")
    other_id = F.col("newest.id") != F.col("of_id")
    points = points.withColumns(
        {
            "given_epoch": F.col("given.epoch"),
            "given_ref": F.col("given.ref"),
            "accepted_epoch": F.when(accepted_newer, F.col("used.epoch")),
            "accepted_ref": F.when(accepted_newer, F.col("used.ref")),
            "least_epoch": F.greatest(F.col("given.least"), F.col("least_used")),
            "given_id": F.col("newest.id"),
            "repeated_ref": F.when(F.col("given.epoch") >= F.col("response_producer_epoch"), F.col("given.ref")),
            "used_ref": F.when(accepted_newer & repeats_used, F.col("used.ref")),
            "other_id_ref": F.when(other_id, F.col("newest.ref")),
            "replaced": holds(other_id & (F.col("since") < F.col("newest.arrival_ms"))),
        }
    )
    return _with_recent(points).drop(
        *latest, "given", "since", "gives", "asks", "of_id", "at_ms", "recent", "least_used"
    )


def _initialises() -> Column:
    """The request is an InitProducerId that states an epoch."""
    return (F.col("event_type") == INIT_PRODUCER_ID) & F.col("expects")


def _given_to_kind(prefix: str = "") -> Column:
    """The one of `_least_epochs` that holds for the request's kind."""
    ends = (F.col("event_type") == END_TXN) & (F.col("api_version") >= EPOCH_BUMP_END_TXN_VERSION)
    of_kind = F.when(ends, F.col(f"{prefix}for_ending")).when(_initialises(), F.col(f"{prefix}for_initialising"))
    return of_kind.otherwise(F.col(f"{prefix}for_adding"))


def _least_used(prefix: str = "") -> Column:
    """The lowest epoch that may be accepted after `_accepted`: InitProducerId may state the one before, see `_least_epochs`."""
    return F.col(f"{prefix}used.epoch") - F.when(_initialises(), F.lit(1)).otherwise(F.lit(0))


def _with_recent(points: DataFrame) -> DataFrame:
    """Adds the columns recent_epoch to recent_id_ref of `producer_requests`. Grain unchanged."""
    least_used, given = _least_used("recent_"), _given_to_kind("recent_")
    used = F.struct(least_used.alias("least"), "recent_used.epoch", "recent_used.ref")
    highest = F.when(F.coalesce(least_used > given["least"], F.col("recent_used").isNotNull()), used).otherwise(given)
    repeats = F.col("response_producer_epoch") <= F.col("highest.epoch")
    is_older = F.when(F.col("expects"), F.col("producer_epoch") < F.col("highest.least")).otherwise(repeats)
    repeated = F.coalesce("repeated_ref", "used_ref").isNotNull()
    was_older = F.when(F.col("expects"), holds(F.col("producer_epoch") < F.col("least_epoch"))).otherwise(repeated)
    newest = F.col("recent_newest")
    other_id = (newest["id"] != F.col("of_id")) & (F.col("since") < newest["arrival_ms"])
    return (
        points.withColumn("highest", highest)
        .withColumns(
            {f"recent_{name}": F.when(is_older & ~was_older, F.col("highest")[name]) for name in ("epoch", "ref")}
            | {
                f"recent_id{suffix}": F.when(other_id & ~F.col("replaced"), newest[name])
                for suffix, name in {"": "id", "_ref": "ref"}.items()
            }
        )
        .drop("highest")
    )


def _given_again(rows: DataFrame) -> DataFrame:
    """One row per answer to InitProducerId that gives what another answer gives, where one of the requests stated no epoch.

    Columns: _PRODUCER, request_ref, first_ref (the first of the others). If exactly one stated no epoch, it is the row; else each but
    the first. Also one row per line that gives what another line or answer gives.
    """
    # an EndTxn that changes nothing is answered with the epoch that it states (TransactionCoordinator.endTransaction)
    answers_as_asked = (F.col("event_type") != INIT_PRODUCER_ID) & (
        F.col("response_producer_epoch") == F.col("producer_epoch")
    )
    given = rows.where(_gives() & ~holds(answers_as_asked))
    same = Window.partitionBy(*_PRODUCER)
    order = F.struct("time_ms", "node", "request_ref")
    given = given.select(*_PRODUCER, "request_ref", "expects", order.alias("at")).withColumns(
        {"first": F.min("at").over(same), "last": F.max("at").over(same), "anew": F.sum((~F.col("expects")).cast("int")).over(same)}
    )  # fmt: skip
    is_first = F.col("at") == F.col("first")
    anew = ~F.col("expects") & (~is_first | (F.col("anew") == 1))
    again = given.where((F.col("first") != F.col("last")) & (F.col("expects").isNull() | anew))
    other = F.when(is_first, F.col("last.request_ref")).otherwise(F.col("first.request_ref"))
    return again.select(*_PRODUCER, "request_ref", other.alias("first_ref"))
