"""What to do next, for whoever was just woken up: the same steps in every format that people read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from epochaudit.inventory.inventory import REQUEST_LOG, SERVER_LOG, STATE_CHANGE_LOG
from epochaudit.report.advice import beginning
from epochaudit.report.contents import Report
from epochaudit.report.losses import OpenQuestions
from epochaudit.report.missing_writes import SEND_AGAIN, by_acks, new_writes
from epochaudit.rules.rule import UNVERIFIABLE

SHOWN: Final = 3  # rules with findings, and logs that are missing
PAGE_SHOWS: Final = "what the rule means and what led to it"

ABSENT: Final[Mapping[str, str]] = {
    STATE_CHANGE_LOG: "No node's state-change.log is here. Kafka writes it by default: collect it from all brokers.",
    SERVER_LOG: "No node's server.log is here. Kafka writes it by default: collect it from all nodes.",
    REQUEST_LOG: "No node's request log is here. Kafka writes none by default: before the next incident, set its logger as epochaudit"
    " doctor shows.",
}
"""What to do about a log that no node has, by its source; those first that exist on the hosts."""

Step = list[tuple[str, bool]]  # texts in turn, and whether each is a command


def next_steps(report: Report, questions: OpenQuestions) -> list[Step]:
    """The steps in their order: the worst rules' advice, the evidence to add, or that there is nothing to mend.

    questions: those of the report.
    """
    flagged = list(dict.fromkeys(finding.rule for finding in report.flagged))  # as findings are: the most severe first
    advice = {rule.rule: beginning(rule.what_to_do) for rule in report.rules}
    steps: list[Step] = [[(SEND_AGAIN, False)]] if by_acks(new_writes(report))["1"] else []
    steps += [
        [(f"epochaudit explain {rule}", True), (f": {advice.get(rule) or PAGE_SHOWS}", False)]
        for rule in flagged[:SHOWN]
    ]
    if len(flagged) > SHOWN:
        steps.append([(f"The same command explains {', '.join(flagged[SHOWN:])}.", False)])
    steps += [
        [(f"Evidence is missing: {one}{f'; {one.remedy}' if one.remedy else ''}.", False)]
        for one in report.inventory.missing[:SHOWN]
    ]
    open_question = report.count(UNVERIFIABLE) or questions.losses or questions.nothing_judged
    absent = [text for source, text in ABSENT.items() if source in report.inventory.absent_logs]
    steps += [[(text, False)] for text in absent if open_question]
    if report.count(UNVERIFIABLE) or report.inventory.incomplete or questions.nothing_judged:
        first = "Where a log is missing, add it and audit again: unverifiable does not mean clean. "
        steps.append([(first, False), ("epochaudit doctor", True), (" lists what is missing.", False)])
    if any(map(report.is_known, report.findings)):
        steps.append(
            [("epochaudit report --warehouse DIR", True), (" lists the known findings with their evidence.", False)]
        )
    elif not flagged and not questions.reasons and not report.lost_writes:
        shows = [("--show fenced", True), (" lists what the protocol refused.", False)]
        steps.append([("Nothing to fix in what was judged. ", False), *shows])
    return steps
