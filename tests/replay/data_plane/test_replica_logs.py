"""The data directories of a real cluster: three brokers of Kafka 4.1, restarted and moved, whose logs are one log."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from epochaudit.findings.finding import Finding, findings
from epochaudit.pipeline import audit
from epochaudit.report.assembly import recording
from epochaudit.sources.record_batches.batches import Batch, batches
from tests.sources.batch_writer import crc32c

RECORDED = Path(__file__).parents[2] / "captures" / "segments" / "mv36-4.1.tar.xz"
RULES = ("EP-07", "EP-08", "EP-09")
OVERWRITTEN, LOST_EPOCH = "broker-2/data/m-0", "broker-3/data/m-2"
OFFSET = 452


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, int], list[Finding]]:
    """Passes by rule, and findings, of the recording and of a copy into which two defects are planted."""
    folder = tmp_path_factory.mktemp("segments")
    with tarfile.open(RECORDED) as archive:
        archive.extractall(folder / "recorded", filter="data")
    shutil.copytree(folder / "recorded", folder / "planted")
    for name in ("recorded", "planted"):
        (folder / name / "capture.toml").write_text(f'cluster = "{name}"\n')
    overwrite(folder / "planted" / OVERWRITTEN / "00000000000000000000.log")
    checkpoint = folder / "planted" / LOST_EPOCH / "leader-epoch-checkpoint"
    checkpoint.write_text(checkpoint.read_text().replace("0\n5\n", "0\n4\n").replace("2 317\n", ""))
    read = audit(spark, str(folder / "recorded"), str(folder / "planted"), select=RULES)
    splits = [row.asDict(recursive=True) for row in read.splits.collect()]
    found = findings(read.listed(), recording(read.captures, splits), {})
    read.release()
    return {tally.rule: tally.counts["pass"] for tally in read.tallies}, list(found)


def overwrite(segment: Path) -> None:
    """Another value in the batch at OFFSET, of the same length and with a checksum that is right."""
    content = bytearray(segment.read_bytes())
    with segment.open("rb") as stream:
        [one] = (b for b in batches(stream) if isinstance(b, Batch) and b.base_offset == OFFSET)
    end = one.byte_offset + one.size
    content[end - 3] ^= 1
    content[one.byte_offset + 17 : one.byte_offset + 21] = crc32c(bytes(content[one.byte_offset + 21 : end])).to_bytes(
        4, "big"
    )
    segment.write_bytes(content)


def test_a_healthy_cluster_has_no_findings(judged: tuple[dict[str, int], list[Finding]]) -> None:
    passes, found = judged
    assert [one.rule for one in found if one.cluster == "recorded"] == []
    assert passes == {"EP-07": 16 + 14, "EP-08": 88 + 87, "EP-09": 88 + 88}


def test_a_batch_that_was_overwritten_on_one_disk_is_found(judged: tuple[dict[str, int], list[Finding]]) -> None:
    found = [one for one in judged[1] if one.rule == "EP-07"]
    assert [(one.verdict, one.subject) for one in found] == [("violation", "m-0")] * 2
    for one in found:
        assert one.observed.startswith(f"the batches differ at offset {OFFSET}:")
        of_batches, of_checkpoints = one.evidence[:2], one.evidence[2:]
        nodes = [line.file.split("/")[0] for line in of_batches]
        assert nodes in (["broker-1", "broker-2"], ["broker-2", "broker-3"])
        assert [line.file.split("/")[0] for line in of_checkpoints] == nodes
        assert all(line.file.endswith("/replication-offset-checkpoint") for line in of_checkpoints)
        for line in of_batches:
            assert line.text is not None
            assert line.text.startswith(f"baseOffset: {OFFSET} lastOffset: {OFFSET} count: 1 ")
            assert line.text.endswith(" isvalid: true")
        assert of_batches[0].text != of_batches[1].text


def test_an_epoch_that_the_checkpoint_lacks_is_found(judged: tuple[dict[str, int], list[Finding]]) -> None:
    [one] = [one for one in judged[1] if one.rule == "EP-08"]
    assert (one.verdict, one.node, one.subject, one.leader_epoch) == ("violation", 3, "m-2", 2)
    assert [line.text for line in one.evidence][1] == "3 590"
