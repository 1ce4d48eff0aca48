"""What the rules about ineligible members of an AlterPartition have in common: IS-01 to IS-04 (KRaft) and, in part, IS-05 (ZooKeeper).

ReplicationControlManager.ineligibleReplicasForIsr names the first reason that fits a member: not registered, in
controlled shutdown, fenced, other broker epoch. Each reason has a rule, so that one member is one finding: fenced
IS-01, in controlled shutdown IS-02, not registered IS-03, another incarnation IS-04.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.kafka.errors import Errors
from epochaudit.rules.reasons import CONTROLLER_VERSION_UNKNOWN
from epochaudit.rules.rule import HIGH, Branch, Rule, exposed, fenced, first_of, passed, unverifiable, violation

REFUSED_AS_INELIGIBLE = (Errors.INELIGIBLE_REPLICA, Errors.OPERATION_NOT_ATTEMPTED)
REFUSAL = "error {INELIGIBLE_REPLICA} ({OPERATION_NOT_ATTEMPTED} below version 2)"
SUCCEEDED = (Errors.NONE, Errors.NEW_LEADER_ELECTED)


def judged_on_eligibility() -> Column:
    """An AlterPartition partition that reached the controller's check of the ISR's members (KRaft)."""
    return (
        ~col("zookeeper")
        & (col("request_error_code") == Errors.NONE)
        & col("error_code").isin(*SUCCEEDED, *REFUSED_AS_INELIGIBLE)
        & (F.size("isr") > 0)
    )


def refused_as_ineligible() -> Column:
    """The answer was 107, or 55 below version 2."""
    return col("error_code").isin(*REFUSED_AS_INELIGIBLE)


ASKED = (
    "broker {broker_id} asked for ISR {isr} of {topic}-{partition} in leader epoch {leader_epoch}, partition epoch {partition_epoch}, "
    "and was answered {error_code}"
)


class IneligibleMemberRule(Rule):
    """A rule about one kind of ineligible member.

    kind: the ineligible state, as an adjective (`fenced`). asked, when: the sentences that state the leader's request,
    and that members were in that state (when None: made of `kind`). made_so: the role of the member's record.
    further_evidence: roles beside those of all kinds.
    members: the column with the members that were ineligible in every state that the controller may have used.
    at_times: the column that is true if a member was, or may have been, ineligible in one of these states.
    uncertain: the reason of `unverifiable` if only at_times holds.
    """

    kind: str
    asked: str = ASKED
    when: str | None = None
    made_so: str = "the record that made the replica ineligible"
    further_evidence: ClassVar[Mapping[str, str]] = {}

    members: str
    at_times: str
    uncertain: str

    observed = "answered {error_code}"

    def __init_subclass__(cls) -> None:
        """Sentences and evidence of a rule about members of this kind."""
        cls.expected = f"no {cls.kind} member in ISR {{isr}}"
        cls.because = (cls.asked,)
        cls.evidence = {
            "the AlterPartition request and its answer": "request_ref",
            cls.made_so: cls.members.replace("_members", "_ref"),
            "the record that the controller wrote": "committed_ref",
            "the partition's state before": "current_ref",
            **cls.further_evidence,
        }

    def applies(self) -> Column:
        """An accepted ISR, or one refused while such a member was in it."""
        explained = col(self.at_times)
        return judged_on_eligibility() & (~refused_as_ineligible() | explained)

    def verdict(self) -> tuple[Branch, ...]:
        named, checks = F.size(self.members) > 0, col("checks_eligibility")
        refusal = REFUSAL + " for ISR {isr}"
        accepted = f"answered {{error_code}}, with {self.kind} {{{self.members}}} in the ISR"
        when = (
            self.when or f"by the metadata log, brokers {{{self.members}}} were {self.kind} when the controller decided"
        )
        return first_of(
            unverifiable(~col("has_metadata_log"), "no metadata log"),
            unverifiable(col(self.members).isNull(), "the request cannot be placed in the metadata log"),
            fenced(
                refused_as_ineligible() & (F.size("ineligible_members") > 0),
                expected=f"{refusal} with ineligible {{ineligible_members}}",
                observed="error {error_code}",
                because=(
                    "by the metadata log, brokers {ineligible_members} were not eligible where the controller can have decided",
                    *self.because,
                ),
            ),
            unverifiable(refused_as_ineligible(), "no member of the refused ISR is known as ineligible"),
            exposed(
                named & ~checks,
                "controllers before 3.3 do not look at the members",
                observed=accepted,
                because=(when, *self.because),
            ),
            violation(
                named & checks,
                expected=f"{refusal} with {self.kind} {{{self.members}}}",
                observed=accepted,
                because=(when, *self.because),
            ),
            unverifiable(named, CONTROLLER_VERSION_UNKNOWN),
            unverifiable(col(self.at_times), self.uncertain),
            otherwise=passed(observed=f"answered {{error_code}}, and none was {self.kind}"),
        )

    def severity_of(self) -> Column | None:
        return F.when(~col("checks_eligibility"), HIGH)
