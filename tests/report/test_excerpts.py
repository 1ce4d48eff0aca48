"""Of a long line the beginning and the fields that decide are shown, whole words only."""

from __future__ import annotations

from dataclasses import replace

from epochaudit.findings.finding import Finding
from epochaudit.report.excerpts import EXCERPT, excerpt

OTHERS = ",".join(f'{{"topic":"other-{n}","partitions":[{{"partition":0,"fetchOffset":30}}]}}' for n in range(40))
ANSWERS = ",".join(
    f'{{"topic":"other-{n}","partitions":[{{"partitionIndex":0,"highWatermark":120}}]}}' for n in range(40)
)
LINE = (
    '[2026-11-21 04:36:51,609] DEBUG Completed request:{"isForwarded":false,"requestHeader":{"requestApiKey":1,'
    '"requestApiVersion":12,"correlationId":17,"clientId":"g20-none-restarted"},"request":{"replicaId":-1,"topics":['
    f'{OTHERS},{{"topic":"orders","partitions":[{{"partition":0,"currentLeaderEpoch":6,"fetchOffset":30}}]}}]}},"response":'
    f'{{"errorCode":0,"topics":[{ANSWERS},{{"topic":"orders","partitions":[{{"partitionIndex":0,"errorCode":0,'
    '"highWatermark":120,"lastStableOffset":118}]}]}}'
)


def test_a_short_line_is_shown_whole(finding: Finding) -> None:
    assert excerpt("short", finding) == "short"


def test_the_deciding_fields_are_those_that_the_sentences_name(finding: Finding) -> None:
    stated = replace(
        finding, client="g20-none-restarted", expected="", observed="it starts at 90",
        because=("high watermark 120 was given out in leader epoch 6",),
    )  # fmt: skip
    shown = excerpt(LINE, stated)
    assert shown.startswith("[2026-11-21 04:36:51,609] DEBUG Completed request:")
    assert '"clientId":"g20-none-restarted"' in shown
    assert '"highWatermark":120,"lastStableOffset"' in shown
    assert '"currentLeaderEpoch":6' in shown
    assert "other-" not in shown
    assert len(shown) < EXCERPT + 50


def test_a_line_that_names_nothing_of_the_finding_is_cut_at_a_word(finding: Finding) -> None:
    assert excerpt("word " * 200, finding) == "word " * 21 + "word …"
