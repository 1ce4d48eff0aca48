"""Of a long line the beginning and the fields that decide are shown, whole words only."""

from __future__ import annotations

from dataclasses import replace

from epochaudit.findings.excerpts import EXCERPT, excerpt
from epochaudit.findings.finding import Finding

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


def test_a_request_log_as_text_has_snake_case_names(finding: Finding) -> None:
    others = ",".join(f"{{topic=other-{n},partitions=[{{partition=0,fetch_offset=30}}]}}" for n in range(40))
    line = (
        "[2026-11-22 17:31:28,305] DEBUG Completed request:RequestHeader(apiKey=FETCH, apiVersion=11, clientId=c, correlationId=17)"
        f" -- {{topics=[{others},{{topic=orders,partitions=[{{partition=0,current_leader_epoch=6,fetch_offset=30}}]}}]}},response:"
        "{responses=[{topic=orders,partition_responses=[{partition_header={partition=0,error_code=0,high_watermark=120,"
        "last_stable_offset=118},record_set=FileRecords(size=0, file=/data/orders-0/00000000000000000000.log, start=0)}]}]}"
    )
    stated = replace(
        finding, topic="orders", topic_id=None, client="c", expected="", observed="it starts at 90",
        because=("high watermark 120 was answered in leader epoch 6",),
    )  # fmt: skip
    shown = excerpt(line, stated)
    assert "high_watermark=120" in shown
    assert "current_leader_epoch=6" in shown
    assert "file=" not in shown


def test_a_topic_id_beside_the_name_is_of_the_same_topic(finding: Finding) -> None:
    line = (
        f'Completed request:{{"topicStates":[{OTHERS},{{"topicName":"orders","topicId":"nTPkBmM4SFK8FC0ycahw5Q","partitionStates":'
        f'[{{"partitionIndex":0,"leader":1,"leaderEpoch":6}}]}},{{"topicName":"more","partitionStates":[{{"leaderEpoch":6}}]}}]}}'
    )
    stated = replace(finding, topic="orders", topic_id=None, because=("broker 2 had accepted leader epoch 6",))
    assert '"leaderEpoch":6' in excerpt(line, stated)


def test_a_line_about_another_topic_of_the_name_is_found_by_the_id_in_the_sentences(finding: Finding) -> None:
    line = (
        f'Completed request:{{"topics":[{OTHERS}]}},"response":{{"responses":[{{"topicId":"nTPkBmM4SFK8FC0ycahw5Q","partitions":'
        '[{"partitionIndex":0,"highWatermark":20}]}]}}'
    )
    stated = replace(
        finding, topic="orders", topic_id="p6fNmoQ8SfKhhYmghxoZwg",
        because=("c had high watermark 20 of the topic with id nTPkBmM4SFK8FC0ycahw5Q",),
    )  # fmt: skip
    assert '"highWatermark":20' in excerpt(line, stated)


def test_a_line_that_names_nothing_of_the_finding_is_cut_at_a_word(finding: Finding) -> None:
    assert excerpt("word " * 200, finding) == "word " * 21 + "word …"
