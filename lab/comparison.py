"""Whether a report says what the clients know: nothing that was lost is left out, and nothing else is reported."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lab.truth import RAW_FROM, ClientRecord, Partition, RawRequest, Truth

Report = Mapping[str, Any]
ACKS: Final = {"all": -1, "1": 1}
FENCED, EXPOSED, UNVERIFIABLE, VIOLATION = "fenced", "exposed", "unverifiable", "violation"
FOUND: Final = (VIOLATION, EXPOSED)
LEFT_EMPTY: Final = "its file is empty"  # how the report begins its remedy for a log that is there, and has no line


@dataclass(frozen=True)
class Refusal:
    """Kafka refused a client something, and the report must count the answers of an API with one of these codes."""

    api: str
    codes: tuple[int, ...]


@dataclass(frozen=True)
class Judged:
    """A single request to a node (a raw one: of a sender that prints what it sent), and what the report must say of it.

    codes: the error codes of its answer by Kafka's protocol, in their order. findings: (rule, verdict) of all findings that must name the
    request, also fenced ones; without any, the report must have none. If Kafka answered 0 where the protocol has a refusal, each fenced one
    must be a violation instead.
    """

    node: int
    correlation_id: int
    name: str
    codes: tuple[int, ...]
    findings: frozenset[tuple[str, str]] = frozenset()

    @property
    def request(self) -> RawRequest:
        return self.node, self.correlation_id


@dataclass(frozen=True)
class Expected:
    """What a scenario knows besides the clients' lists.

    losses: partitions of which records must be missing; without a loss there the run itself has failed.
    required, allowed: findings as (rule, topic, partition). All others are false alarms.
    deleted: producers whose records were deleted on purpose, with their topic. deleted_below: the offset below which the records of a
    partition were deleted on purpose.
    refusals: what clients were refused. fenced: clients whose request a rule must have judged as fenced, as (rule, client).
    passed: rules that must have judged a subject as pass.
    requests: all raw requests, one by one.
    skipped: consumers that went on in a topic that was created anew, and did not read its first records: (client, topic, partition).
    killed: how often a leader was killed while producers wrote. Kafka logs a request after it has sent the answer, so each time the last
    answer to each producer may not be in the log.
    """

    losses: frozenset[Partition] = frozenset()
    required: frozenset[tuple[str, str | None, int | None]] = frozenset()
    allowed: frozenset[tuple[str, str | None, int | None]] = frozenset()
    deleted: frozenset[str] = frozenset()
    deleted_below: Mapping[Partition, int] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()
    fenced: frozenset[tuple[str, str]] = frozenset()
    passed: frozenset[str] = frozenset()
    requests: tuple[Judged, ...] = ()
    skipped: frozenset[tuple[str, str, int]] = frozenset()
    killed: int = 0


@dataclass(frozen=True)
class Check:
    """One comparison. `reason` says what differs, or what was found equal."""

    name: str
    passed: bool
    reason: str


@dataclass(frozen=True)
class Subject:
    """What is compared: the report of a run, the clients' lists, and the scenario's knowledge.

    nodes: their ids, and the roles that they must have. may_control: with ZooKeeper, each broker may become the controller.
    reported_defects: see `Release`.
    """

    report: Report
    truth: Truth
    expected: Expected
    kafka: str
    nodes: Mapping[int, Collection[str]] = field(default_factory=dict)
    may_control: bool = False
    reported_defects: frozenset[str] = frozenset()


def compare(subject: Subject) -> list[Check]:
    """All checks of a run."""
    checks = (
        _conclusive,
        _evidence,
        _answers,
        _findings,
        _lost_writes,
        _losses,
        _readers,
        _refusals,
        _requests,
        _passed,
        _skipped,
    )
    return [check(subject) for check in checks]


def failed(subject: Subject) -> list[Check]:
    """The checks that do not hold."""
    return [check for check in compare(subject) if not check.passed]


def _check(name: str, mistakes: list[str], right: str) -> Check:
    return Check(name, not mistakes, "; ".join(mistakes) if mistakes else right)


def _missing(subject: Subject, acks: str | None = None) -> list[ClientRecord]:
    gone = _gone(subject, subject.truth.acknowledged)
    return [one for one in gone if acks in (None, one.acks)]


def _batches(records: Iterable[ClientRecord]) -> list[ClientRecord]:
    """The first record of each batch."""
    first: dict[object, ClientRecord] = {}
    for one in sorted(records, key=lambda one: one.offset):
        first.setdefault(one.batch_key, one)
    return list(first.values())


def _missing_of_consumers(subject: Subject) -> list[ClientRecord]:
    return _gone(subject, subject.truth.consumed)


def _gone(subject: Subject, records: Iterable[ClientRecord]) -> list[ClientRecord]:
    return subject.truth.missing(records, subject.expected.deleted, subject.expected.deleted_below)


def _conclusive(subject: Subject) -> Check:
    """The run did what its scenario describes; otherwise a report without findings would prove nothing."""
    truth, expected = subject.truth, subject.expected
    mistakes = []
    if not truth.acknowledged:
        mistakes.append("no record was acknowledged")
    unread = sorted({one.place for one in (*truth.acknowledged, *truth.consumed)} - truth.stored.keys())
    if unread:
        mistakes.append(f"not read back at the end: {_named(unread)}")
    gone = {one.place for one in (*_missing(subject), *_missing_of_consumers(subject))}
    mistakes += [f"nothing of {topic}-{partition} is missing" for topic, partition in sorted(expected.losses - gone)]
    mistakes += [
        f"{topic}-{partition} still has offset {min(truth.stored[topic, partition])}, which was deleted"
        for (topic, partition), below in sorted(expected.deleted_below.items())
        if min(truth.stored.get((topic, partition)) or {below: ""}) < below
    ]
    if (expected.refusals or expected.fenced) and not truth.refused:
        mistakes.append("no client was refused anything")
    return _check(
        "the run did what the scenario describes",
        mistakes,
        f"{len(truth.acknowledged)} of {truth.sent} records acknowledged",
    )


def _evidence(subject: Subject) -> Check:
    """All nodes, in their roles, of this release; each line read; nothing missing.

    A broker that leads nothing may be asked nothing. As its request log is empty, the report can't know that; the lab does.
    """
    capture = subject.report["capture"]
    optional = {"controller"} if subject.may_control else set()
    stated = {number: set(roles) for number, roles in subject.nodes.items()}
    found = {
        node["node"]: set(node["roles"]) - (optional - stated.get(node["node"], set())) for node in capture["nodes"]
    }
    mistakes = []
    if found != stated:
        mistakes.append(f"nodes are {stated}, the report has {found}")
    releases = {node["kafka"] for node in capture["nodes"]}
    if releases != {subject.kafka}:
        mistakes.append(f"Kafka is {subject.kafka}, the report has {sorted(map(str, releases))}")
    if capture["quarantined"]:
        mistakes.append(f"{capture['quarantined']} lines could not be read")
    missing = [one for one in capture["missing"] if not one["remedy"].startswith(LEFT_EMPTY)]
    mistakes += [f"{one['what']} of node {one['node']} is missing" for one in missing]
    if not capture["complete"] and not capture["missing"]:
        mistakes.append("evidence is missing")
    mistakes += [f"{path} is of no known kind" for path in capture["unknown_files"]]
    return _check("the evidence is complete", mistakes, f"{capture['lines']} lines of {len(found)} nodes")


def _answers(subject: Subject) -> Check:
    """Each acknowledgement that a client counts is an answer that the report counts. Answers may have been lost on their way."""
    listed = len(_batches(subject.truth.acknowledged))
    counted = subject.report["capture"]["error_codes"].get("PRODUCE", {}).get("0", 0)
    mistakes = (
        [f"clients count {listed} acknowledgements, the report {counted}"]
        if counted < listed - _not_logged(subject)
        else []
    )
    return _check(
        "acknowledgements are counted", mistakes, f"{listed} listed by clients, {counted} in the request logs"
    )


def _not_logged(subject: Subject) -> int:
    """At most so many answers may be missing from the request logs."""
    return subject.expected.killed * len({one.client for one in subject.truth.acknowledged})


def _all_findings(report: Report) -> Iterator[Mapping[str, Any]]:
    """Those that others caused, too."""
    for finding in report["findings"]:
        yield from (finding, *finding["consequences"])


def _found(report: Report) -> Iterator[tuple[Mapping[str, Any], tuple[str, str | None, int | None]]]:
    for one in _all_findings(report):
        if one["verdict"] in FOUND:
            yield one, (one["rule"], one["topic"], one["partition"])


def _findings(subject: Subject) -> Check:
    """Those that the scenario and the clients' lists require, and no others."""
    expected = subject.expected
    required = expected.required | {("AW-01", *one.place) for one in _missing(subject, "all")}
    required |= {("TR-06", *one.place) for one in _missing_of_consumers(subject)}
    allowed = required | expected.allowed
    raw = {one.request for one in expected.requests}  # compared one by one
    found = {key: one for one, key in _found(subject.report) if _request(one) not in raw}
    mistakes = [f"missed: {_subject(key)}" for key in sorted(required - found.keys(), key=str)]
    mistakes += [
        f"false alarm: {_subject(key)}: {one['observed']}"
        for key, one in sorted(found.items(), key=str)
        if key not in allowed and not _is_reported_defect(subject, one)
    ]
    return _check(
        "findings", mistakes, ", ".join(_subject(key) for key in sorted(found, key=str)) or "none, as it must be"
    )


def _is_reported_defect(subject: Subject, finding: Mapping[str, Any]) -> bool:
    return finding["verdict"] == "exposed" and finding["rule"] in subject.reported_defects


def _subject(key: tuple[str, str | None, int | None]) -> str:
    rule, topic, partition = key
    return rule if topic is None else f"{rule} of {topic}-{partition}"


def _lost_writes(subject: Subject) -> Check:
    """Each producer's missing acknowledged batches, by number and base offsets.

    A record whose answer did not reach its producer may have been acknowledged and lost, too: the report may have as many more as the
    producer had failures. With acks=1 it may lack the last ones before a kill
    (`Expected.killed`).
    """
    listed = _missing_batches(subject)
    reported: dict[tuple[str, int, Partition], list[Mapping[str, Any]]] = {}
    for entry in subject.report["lost_writes"]:
        reported.setdefault((entry["client"], entry["acks"], (entry["topic"], entry["partition"])), []).append(entry)
    mistakes = []
    for key in sorted({*listed, *reported}):
        client, acks, place = key
        offsets, entries = sorted(listed.get(key, [])), reported.get(key, [])
        batches = sum(one["batches"] for one in entries)
        unknown = subject.truth.failed.get((client, place), 0)
        name = f"{client} (acks={'all' if acks == ACKS['all'] else acks}) in {place[0]}-{place[1]}"
        unlogged = _unlogged(subject, acks)
        known = offsets[: max(0, len(offsets) - unlogged)]
        if not len(known) <= batches <= len(offsets) + unknown:
            mistakes.append(f"{name} misses {len(offsets)}, the report {batches}; {unknown} were not answered")
        elif entries and known:
            first, last = min(one["first_offset"] for one in entries), max(one["last_offset"] for one in entries)
            exact = not unknown and not unlogged
            if first > known[0] or last < known[-1] or (exact and (first, last) != (known[0], known[-1])):
                mistakes.append(f"{name} misses offsets {known[0]} to {offsets[-1]}, the report has {first} to {last}")
    right = ", ".join(f"{key[0]} {len(offsets)}" for key, offsets in sorted(listed.items())) or "none"
    return _check("acknowledged records that are missing", mistakes, f"missing: {right}")


def _missing_batches(subject: Subject) -> dict[tuple[str, int, Partition], list[int]]:
    """Base offsets of the missing batches, by client, acks and partition."""
    listed: dict[tuple[str, int, Partition], list[int]] = {}
    for one in _batches(_missing(subject)):
        listed.setdefault((one.client, ACKS[one.acks], one.place), []).append(one.offset)
    return listed


def _unlogged(subject: Subject, acks: int) -> int:
    """So many of a producer's missing batches may lack a line."""
    return subject.expected.killed if acks == ACKS["1"] else 0


def _losses(subject: Subject) -> Check:
    """Ranges of lost offsets: all that was acknowledged with acks=all or consumed, and nothing that is there."""
    must = {(one.place, one.offset) for one in (*_missing(subject, "all"), *_missing_of_consumers(subject))}
    may = must | {(one.place, one.offset) for one in _missing(subject)}
    reported = {
        ((one["topic"], one["partition"]), offset)
        for one in subject.report["losses"]
        for offset in range(one["first_offset"], one["last_offset"] + 1)
    }
    unanswered = {place for (_, place), count in subject.truth.failed.items() if count}
    mistakes = [f"lost, not reported: {_ranges(must - reported)}"] if must - reported else []
    surplus = {one for one in reported - may if one[0] not in unanswered}
    surplus |= {one for one in reported if subject.truth.stored.get(one[0]) is None}
    if surplus:
        mistakes.append(f"reported, not lost: {_ranges(surplus)}")
    return _check("lost offsets", mistakes, _ranges(reported) or "none")


def _readers(subject: Subject) -> Check:
    """Who had read the records that were lost."""
    listed = {(one.client, one.place) for one in _missing_of_consumers(subject)}
    reported = {
        (reader["client"], (one["topic"], one["partition"]))
        for one in subject.report["losses"]
        for reader in one["read_by"]
    }
    mistakes = [
        f"{client} had read lost records of {topic}-{partition}, and is not named"
        for client, (topic, partition) in listed - reported
    ]
    mistakes += [
        f"{client} is named, and had read none of {topic}-{partition}"
        for client, (topic, partition) in reported - listed
    ]
    return _check(
        "consumers that had read lost records", mistakes, ", ".join(sorted({client for client, _ in listed})) or "none"
    )


def _refusals(subject: Subject) -> Check:
    """What Kafka refused: answers by code, and the verdicts of the rules that judge them."""
    counted = subject.report["capture"]["error_codes"]
    judged = {(one["rule"], one["client"]) for one in subject.report["findings"] if one["verdict"] == "fenced"}
    mistakes, right = [], []
    for one in subject.expected.refusals:
        answers = sum(counted.get(one.api, {}).get(str(code), 0) for code in one.codes)
        right.append(f"{answers} x {one.api}")
        if not answers:
            mistakes.append(f"no {one.api} was answered {_named(one.codes)}")
    for rule, client in sorted(subject.expected.fenced):
        right.append(f"{rule} of {client}")
        if (rule, client) not in judged:
            mistakes.append(f"{rule} judged no request of {client} as fenced")
    return _check("refusals", mistakes, ", ".join(right) or "none expected")


def _requests(subject: Subject) -> Check:
    """Raw requests, one by one: how Kafka answered, and every finding that names them."""
    expected, listed = {one.request: one for one in subject.expected.requests}, subject.truth.codes
    reported: dict[RawRequest, set[tuple[str, str]]] = {}
    for one in _all_findings(subject.report):
        if (one.get("correlation_id") or 0) >= RAW_FROM and one["verdict"] in (*FOUND, FENCED, UNVERIFIABLE):
            reported.setdefault(_request(one), set()).add((one["rule"], one["verdict"]))
    mistakes = []
    for key in sorted({*expected, *listed, *reported}):
        due, answered, found = expected.get(key), listed.get(key), reported.get(key, set())
        name = f"request {key[1]} to node {key[0]}" + (f" ({due.name})" if due else "")
        if due is None or answered is None:
            state = "not listed by a client" if answered is None else "not expected"
            mistakes.append(f"{name} is {state}; the report has {_verdicts(found)}")
            continue
        if answered != due.codes:
            mistakes.append(f"{name} was answered {_named(answered)}, by Kafka's protocol it is {_named(due.codes)}")
        judged = _due(due, answered)
        if found != judged:
            answer = f"{name}, answered {_named(answered)}"
            mistakes.append(f"{answer}, must have {_verdicts(judged)}, the report has {_verdicts(found)}")
    counts = Counter(pair for one in expected.values() for pair in one.findings)
    right = ", ".join(f"{count} x {rule} {verdict}" for (rule, verdict), count in sorted(counts.items()))
    return _check("raw requests", mistakes, f"{len(expected)} sent: {right}" if expected else "none")


def _request(finding: Mapping[str, Any]) -> RawRequest:
    return finding.get("node") or 0, finding.get("correlation_id") or 0


def _due(request: Judged, answered: tuple[int, ...]) -> set[tuple[str, str]]:
    """The findings that must name the request, after what Kafka answered."""
    obeyed = answered != request.codes and not any(answered)
    return {(rule, VIOLATION if obeyed and verdict == FENCED else verdict) for rule, verdict in request.findings}


def _verdicts(findings: Collection[tuple[str, str]]) -> str:
    return ", ".join(f"{rule} {verdict}" for rule, verdict in sorted(findings)) or "no finding"


def _passed(subject: Subject) -> Check:
    """Rules that must have judged something as right: a report without findings of a rule without subjects would prove nothing."""
    counts = {one["rule"]: one["pass"] for one in subject.report.get("rules", ())}
    mistakes = [f"{rule} judged nothing as pass" for rule in sorted(subject.expected.passed) if not counts.get(rule)]
    right = ", ".join(f"{counts.get(rule)} x {rule}" for rule in sorted(subject.expected.passed))
    return _check("rules that must have a subject", mistakes, right or "none expected")


def _skipped(subject: Subject) -> Check:
    """Records of a topic that was created anew, which a consumer of the former one never read, although it went on."""
    reported = {
        (skipped["client"], one["topic"], one["partition"]): (one["first_offset"], one["last_offset"])
        for one in subject.report["undelivered"]
        for skipped in one["skipped"]
    }
    mistakes = []
    for key in sorted({*subject.expected.skipped, *reported}):
        client, topic, partition = key
        stored = subject.truth.stored.get((topic, partition), {})
        read = {one.offset for one in subject.truth.consumed if one.client == client and one.place == (topic, partition)
                and stored.get(one.offset) == one.value}  # fmt: skip
        skipped = sorted(set(stored) - read)
        stated = (skipped[0], skipped[-1]) if skipped else None
        if stated != reported.get(key):
            mistakes.append(
                f"{client} did not read {stated} of {topic}-{partition}, the report has {reported.get(key)}"
            )
    right = ", ".join(f"{client}: {first} to {last}" for (client, _, _), (first, last) in sorted(reported.items()))
    return _check("records that were skipped", mistakes, right or "none")


def _named(items: Collection[object]) -> str:
    return ", ".join(f"{one[0]}-{one[1]}" if isinstance(one, tuple) else str(one) for one in items)


def _ranges(offsets: Collection[tuple[Partition, int]]) -> str:
    """Offsets by partition, as ranges."""
    parts: list[str] = []
    last: tuple[Partition, int] | None = None
    for place, offset in sorted(offsets):
        if last is not None and last == (place, offset - 1):
            parts[-1] = f"{parts[-1].split(' to ')[0]} to {offset}"
        else:
            parts.append(f"{place[0]}-{place[1]}: {offset}")
        last = (place, offset)
    return ", ".join(parts)


def tampered(subject: Subject) -> Iterator[tuple[str, Subject]]:
    """Changes to a run that compared well, each of which must be noticed: a comparison that can't fail proves nothing."""
    truth = subject.truth
    durable = [one for one in truth.acknowledged if one.acks == "all" and not truth.is_missing(one)]
    if durable:
        victim = durable[-1]
        stored = {place: dict(records) for place, records in truth.stored.items()}
        del stored[victim.place][victim.offset]
        yield f"{victim.value} is missing", replace(subject, truth=replace(truth, stored=stored))
    for client, place in sorted({(one.client, one.place) for one in _missing(subject)}):
        gone = [one for one in _batches(_missing(subject)) if (one.client, one.place) == (client, place)]
        noticed_from = truth.failed.get((client, place), 0) + subject.expected.killed + 1
        if len(gone) < noticed_from:
            continue  # so few may have been lost unknown to the producer, or unlogged
        batches = {one.batch_key for one in gone[:noticed_from]}
        acknowledged = tuple(one for one in truth.acknowledged if one.batch_key not in batches)
        values = {one.value for one in truth.acknowledged if one.batch_key in batches}
        consumed = tuple(one for one in truth.consumed if one.value not in values)
        never = replace(truth, acknowledged=acknowledged, consumed=consumed)
        yield f"{noticed_from} missing batches of {client} were never acknowledged", replace(subject, truth=never)
    if truth.acknowledged:
        answers = _changed(subject)
        answers["capture"]["error_codes"]["PRODUCE"]["0"] = len(_batches(truth.acknowledged)) - _not_logged(subject) - 1
        yield "an acknowledgement is not counted", replace(subject, report=answers)
    alarm = _changed(subject)
    alarm["findings"].append(
        {
            "rule": "TR-07",
            "verdict": "violation",
            "topic": "nowhere",
            "partition": 0,
            "observed": "",
            "consequences": [],
        }
    )
    yield "the report has one finding more", replace(subject, report=alarm)
    for name in ("findings", "losses", "lost_writes", "undelivered"):
        if _is_required(subject, name):
            without = _changed(subject)
            without[name] = []
            yield f"the report has no {name}", replace(subject, report=without)
    if subject.expected.refusals:
        accepted = _changed(subject)
        accepted["capture"]["error_codes"].pop(subject.expected.refusals[0].api, None)
        yield "the refusals are not counted", replace(subject, report=accepted)
    if subject.expected.fenced:
        unjudged = _changed(subject)
        unjudged["findings"] = [one for one in unjudged["findings"] if one["verdict"] != "fenced"]
        yield "nothing was judged as fenced", replace(subject, report=unjudged)
    yield from _tampered_requests(subject)
    if subject.expected.passed:
        empty = _changed(subject)
        empty["rules"] = []
        yield "no rule has a subject", replace(subject, report=empty)
    partial = _changed(subject)
    partial["capture"]["nodes"] = partial["capture"]["nodes"][1:]
    yield "a node's logs are missing", replace(subject, report=partial)


def _tampered_requests(subject: Subject) -> Iterator[tuple[str, Subject]]:
    """Changes to the list of raw requests, and to what the report says of them."""
    truth, expected = subject.truth, subject.expected
    for at, one in enumerate(expected.requests):
        name, codes = f"request {one.correlation_id}", truth.codes[one.request]
        other = {**truth.codes, one.request: tuple(0 if code else 1 for code in codes)}
        yield f"{name} had another answer", replace(subject, truth=replace(truth, codes=other))
        unsent = {key: answer for key, answer in truth.codes.items() if key != one.request}
        yield f"{name} was not sent", replace(subject, truth=replace(truth, codes=unsent))
        rest = (*expected.requests[:at], *expected.requests[at + 1 :])
        yield f"{name} was not expected", replace(subject, expected=replace(expected, requests=rest))
        for rule, verdict in sorted(one.findings):
            judged = (one.request, rule, verdict)
            yield f"{rule} has no verdict on {name}", _with_verdict(subject, judged, "pass")
            other_verdict = VIOLATION if verdict == FENCED else FENCED
            yield f"{rule} has another verdict on {name}", _with_verdict(subject, judged, other_verdict)
        alarm = _changed(subject)
        place = {"node": one.node, "correlation_id": one.correlation_id, "topic": None, "partition": None}
        alarm["findings"].append({"rule": "TR-07", "verdict": FENCED, "client": None, "consequences": [], **place})
        yield f"{name} has one finding more", replace(subject, report=alarm)


def _with_verdict(subject: Subject, judged: tuple[RawRequest, str, str], verdict: str) -> Subject:
    """The findings of a rule about a raw request with another verdict than this one."""
    changed = _changed(subject)
    for finding in changed["findings"]:
        for one in (finding, *finding["consequences"]):
            if (_request(one), one["rule"], one["verdict"]) == judged:
                one["verdict"] = verdict
    return replace(subject, report=changed)


def _is_required(subject: Subject, name: str) -> bool:
    """Whether the report would be wrong if this list of it were empty."""
    if name == "findings":
        return any(
            one["verdict"] in FOUND and not _is_reported_defect(subject, one) for one in subject.report["findings"]
        )
    if name == "lost_writes":
        missing = _missing_batches(subject)
        return any(len(offsets) > _unlogged(subject, acks) for (_, acks, _), offsets in missing.items())
    return bool(subject.report[name])


def _changed(subject: Subject) -> dict[str, Any]:
    return copy.deepcopy(dict(subject.report))


def unnoticed(subject: Subject) -> list[str]:
    """The changes that the comparison does not notice: none, or it is broken."""
    return [change for change, other in tampered(subject) if not failed(other)]
