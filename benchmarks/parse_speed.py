"""How fast each recorded format is decoded, and a JSON request log beside DuckDB, polars and Spark's from_json.

    python benchmarks/parse_speed.py [--megabytes 100]

The logs are those of tests/captures, repeated. What is measured is CPU time, in a process of its own for each measurement,
the best of three after one to warm up; of Spark that of its JVM and its Python workers. Peers read the fields of Fetch
requests that FETCH_FIELDS names, one row per partition that a request or its response lists; so does `ours, these fields`. Logs
below 100 MB, and 50 MB of text, are decoded without compiled code. The captures in text have five times as much beside Fetches
as those in JSON: the two syntaxes compare by the lines of one kind, which are listed as well.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
CAPTURES: Final = ROOT / "tests" / "captures"
KINDS: Final = {  # recorded format -> name of the stream of events, files
    "request-log-json": ("request_log", "broker-*/kafka-request.log", "zk-*-3.9"),
    "request-log-text": ("request_log", "broker-*/kafka-request.log", "zk-*-2.*"),
    "state-change-log": ("state_change_log", "broker-*/state-change.log", "*-3.9"),
    "server-log": ("server_log", "broker-*/server.log", "*"),
    "metadata-log-dump": ("metadata_log", "metadata/*.txt", "kraft-*"),
    "metadata-log-segment": ("metadata_log", "metadata/*.log", "kraft-*"),
    "client-log": ("client_log", "clients/j*.log", "*"),
}
FETCH_FIELDS: Final = (
    "time_ms", "api_version", "correlation_id", "client_id", "connection", "total_time_us", "request_error_code",
    "replica_id", "session_id", "session_epoch", "topic", "topic_id", "partition", "current_leader_epoch", "fetch_offset",
    "last_fetched_epoch", "requester_log_start_offset", "error_code", "high_watermark", "last_stable_offset",
    "log_start_offset", "diverging_epoch", "diverging_end_offset", "records_size",
)  # fmt: skip
FETCH: Final = re.compile(rb'"requestApiKeyName":"FETCH"|apiKey=FETCH,')
REQUEST_LOGS: Final = ("request-log-json", "request-log-text")
RUNS: Final = 3

DUCKDB: Final = """
with lines as (
  select content as l from read_csv('{path}', columns={{'content': 'varchar'}}, delim='\\x01', quote='', escape='',
                                    header=false, auto_detect=false, max_line_size=10000000)),
fetches as (
  select epoch_ms(strptime(l[2:24], '%Y-%m-%d %H:%M:%S,%g')) as time_ms,
         from_json(l[instr(l, 'Completed request:') + 18 : length(l) - 23], '{schema}') as d
  from lines where contains(l, '"requestApiKeyName":"FETCH"')),
rows as (
  select time_ms, d.requestHeader.requestApiVersion as api_version, d.requestHeader.correlationId as correlation_id,
         d.requestHeader.clientId as client_id, d.connection as connection, d.totalTimeMs as total_time_ms,
         d.response.errorCode as request_error_code, coalesce(d.request.replicaState.replicaId, d.request.replicaId) as replica_id,
         coalesce(nullif(d.request.sessionId, 0), d.response.sessionId) as session_id, d.request.sessionEpoch as session_epoch,
         list_concat(
           flatten(list_transform(d.request.topics, lambda t: list_transform(t.partitions, lambda p: {{
             'topic': t.topic, 'topic_id': t.topicId, 'partition': p.partition, 'current_leader_epoch': p.currentLeaderEpoch,
             'fetch_offset': p.fetchOffset, 'last_fetched_epoch': p.lastFetchedEpoch, 'requester_log_start_offset': p.logStartOffset,
             'error_code': null::int, 'high_watermark': null::bigint, 'last_stable_offset': null::bigint,
             'log_start_offset': null::bigint, 'diverging_epoch': null::int, 'diverging_end_offset': null::bigint,
             'records_size': null::bigint}}))),
           flatten(list_transform(d.response.responses, lambda t: list_transform(t.partitions, lambda p: {{
             'topic': t.topic, 'topic_id': t.topicId, 'partition': p.partitionIndex, 'current_leader_epoch': null::int,
             'fetch_offset': null::bigint, 'last_fetched_epoch': null::int, 'requester_log_start_offset': null::bigint,
             'error_code': p.errorCode, 'high_watermark': p.highWatermark, 'last_stable_offset': p.lastStableOffset,
             'log_start_offset': p.logStartOffset, 'diverging_epoch': p.divergingEpoch.epoch,
             'diverging_end_offset': p.divergingEpoch.endOffset, 'records_size': p.recordsSizeInBytes}})))) as partitions
  from fetches)
select * exclude partitions, unnest(partitions, recursive := true) from rows
"""
JSON_FIELDS: Final = {
    "requestHeader": {"correlationId": "INT", "clientId": "VARCHAR", "requestApiVersion": "INT"},
    "request": {
        "replicaId": "INT",
        "replicaState": {"replicaId": "INT"},
        "sessionId": "INT",
        "sessionEpoch": "INT",
        "topics": [
            {
                "topicId": "VARCHAR",
                "topic": "VARCHAR",
                "partitions": [
                    {
                        "partition": "INT",
                        "currentLeaderEpoch": "INT",
                        "fetchOffset": "BIGINT",
                        "lastFetchedEpoch": "INT",
                        "logStartOffset": "BIGINT",
                    }
                ],
            }
        ],
    },
    "response": {
        "errorCode": "INT",
        "sessionId": "INT",
        "responses": [
            {
                "topicId": "VARCHAR",
                "topic": "VARCHAR",
                "partitions": [
                    {
                        "partitionIndex": "INT",
                        "errorCode": "INT",
                        "highWatermark": "BIGINT",
                        "lastStableOffset": "BIGINT",
                        "logStartOffset": "BIGINT",
                        "divergingEpoch": {"epoch": "INT", "endOffset": "BIGINT"},
                        "recordsSizeInBytes": "BIGINT",
                    }
                ],
            }
        ],
    },
    "connection": "VARCHAR",
    "totalTimeMs": "DOUBLE",
}

Measurement = tuple[float, int]  # CPU seconds, rows


def corpus(kind: str, megabytes: int, folder: Path) -> Path:
    """A file of the format: the captures' files one after another, repeated up to the size."""
    _, pattern, captures = KINDS[kind]
    data = bytearray()
    for archive in sorted(CAPTURES.glob(f"{captures}.tar.xz")):
        with tarfile.open(archive) as packed, tempfile.TemporaryDirectory() as unpacked:
            packed.extractall(unpacked, filter="data")
            for file in sorted(Path(unpacked).glob(f"*/{pattern}")):
                data += file.read_bytes()
    path = folder / f"{kind}.log"
    with path.open("wb") as out:
        while out.tell() < megabytes * 1_000_000:
            out.write(data)
    return path


def fetches_and_others(path: Path) -> tuple[Path, Path]:
    """A request log's lines in two files: completed Fetches, which are most of a cluster's, and the others."""
    both = path.with_suffix(".fetches"), path.with_suffix(".others")
    with path.open("rb") as lines, both[0].open("wb") as fetches, both[1].open("wb") as others:
        for line in lines:
            (fetches if FETCH.search(line) else others).write(line)
    return both


def ours(path: str, kind: str, wanted: bool = False) -> Measurement:
    """The decoder as a task of the scan runs it."""
    from epochaudit.sources.files.capture import CaptureFile
    from epochaudit.sources.scan.datasource import batches
    from epochaudit.sources.scan.ranges import ByteRange
    from epochaudit.sources.sink import EVERYTHING, Wanted

    file = CaptureFile("log", path, kind, "c", os.path.getsize(path), 1, KINDS[kind][0])
    asked = Wanted(frozenset({"FETCH"}), frozenset({"row_kind", *FETCH_FIELDS})) if wanted else EVERYTHING

    def run() -> int:
        return sum(batch.num_rows for batch in batches([ByteRange(file, 0, 0, None)], asked))

    return best(run)


def duckdb(path: str) -> Measurement:
    """Hand-written SQL, one thread, into an Arrow table."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("set threads = 1")
    query = DUCKDB.format(path=path, schema=json.dumps(JSON_FIELDS))
    return best(lambda: connection.sql(query).to_arrow_table().num_rows)


def polars(path: str) -> Measurement:
    """Lazy expressions with a declared schema, one thread; rows of responses only."""
    os.environ["POLARS_MAX_THREADS"] = "1"
    import polars as pl

    kinds = {"INT": pl.Int32, "BIGINT": pl.Int64, "VARCHAR": pl.String, "DOUBLE": pl.Float64}

    def declared(fields: object) -> pl.DataType:
        if isinstance(fields, dict):
            return pl.Struct({name: declared(field) for name, field in fields.items()})
        return pl.List(declared(fields[0])) if isinstance(fields, list) else kinds[str(fields)]()

    line = pl.col("line")

    def run() -> int:
        lines = pl.scan_csv(path, separator="\x01", has_header=False, quote_char=None, schema={"line": pl.String})
        fetches = lines.filter(line.str.contains('"requestApiKeyName":"FETCH"', literal=True)).select(
            line.str.slice(1, 23).str.to_datetime("%Y-%m-%d %H:%M:%S,%3f"),
            line.str.slice(50)
            .str.strip_suffix(" (kafka.request.logger)")
            .str.json_decode(declared(JSON_FIELDS))
            .alias("d"),
        )
        topics = pl.col("d").struct.field("response").struct.field("responses")
        return fetches.with_columns(topics.alias("topic")).explode("topic").collect().height

    return best(run)


def from_json(path: str) -> Measurement:
    """read.text, from_json with a declared schema, explode; rows of responses only. CPU seconds of the JVM."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    def declared(fields: object) -> str:
        if isinstance(fields, dict):
            return f"struct<{','.join(f'{name}:{declared(field)}' for name, field in fields.items())}>"
        if isinstance(fields, list):
            return f"array<{declared(fields[0])}>"
        return {"INT": "int", "BIGINT": "bigint", "VARCHAR": "string", "DOUBLE": "double"}[str(fields)]

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.ansi.enabled", "false")
        .getOrCreate()
    )
    lines = spark.read.text(path).where(F.col("value").contains('"requestApiKeyName":"FETCH"'))
    json_text = F.regexp_extract("value", r"Completed request:(\{.*\}) \(", 1)
    fetches = lines.select(
        F.to_timestamp(F.substring("value", 2, 23), "yyyy-MM-dd HH:mm:ss,SSS").alias("time"),
        F.from_json(json_text, declared(JSON_FIELDS)).alias("d"),
    )
    rows = fetches.select("time", "d", F.explode("d.response.responses").alias("t"))
    rows = rows.select("time", "d.requestHeader.*", "d.request.sessionId", F.explode("t.partitions").alias("p"))

    def run() -> int:
        rows.write.format("noop").mode("overwrite").save()
        return 0

    return best(run, jvm_seconds)


def jvm_seconds() -> float:
    """CPU seconds of the child processes, which are the JVM, and of this process."""
    total = time.process_time()
    ticks = os.sysconf("SC_CLK_TCK")
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            total += (int(fields[11]) + int(fields[12])) / ticks
    return total


def best(run: Callable[[], int], clock: Callable[[], float] = time.process_time) -> Measurement:
    """The least CPU time of some runs after one to warm up."""
    seconds, rows = [], 0
    for _ in range(RUNS + 1):
        gc.collect()
        started = clock()
        rows = run()
        seconds.append(clock() - started)
    return min(seconds[1:]), rows


MEASURED: Final[Mapping[str, Callable[[str], Measurement]]] = {
    "DuckDB, SQL by hand, these fields": duckdb,
    "polars, declared schema, these fields": polars,
    "Spark, read.text and from_json, these fields": from_json,
    "ours, these fields": lambda path: ours(path, "request-log-json", wanted=True),
}


def peak_megabytes() -> float:
    """Peak resident memory of this process without its JVM."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1000


def measured(name: str, path: Path) -> Mapping[str, float]:
    """The result of one measurement, made in a process of its own."""
    ran = subprocess.run(
        [sys.executable, __file__, "--measure", name, str(path)], check=True, capture_output=True, text=True, cwd=ROOT
    )
    result: Mapping[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return result


def table(results: Iterable[tuple[str, Path, Mapping[str, float]]]) -> str:
    """The results as Markdown."""
    lines = ["| what | MB | rows | MB per CPU-second | peak MB |", "|---|---|---|---|---|"]
    for name, path, result in results:
        size = path.stat().st_size / 1e6
        rows = f"{int(result['rows']):,}" if result["rows"] else "-"
        part = path.suffix.replace(".", ", ") if path.suffix != ".log" else ""
        lines.append(f"| {name}{part} | {size:.0f} | {rows} | {size / result['seconds']:.0f} | {result['peak']:.0f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--measure", nargs=2, metavar=("WHAT", "FILE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        name, path = asked.measure
        seconds, rows = MEASURED[name](path) if name in MEASURED else ours(path, name)
        peak = peak_megabytes()
        sys.stdout.write(json.dumps({"seconds": seconds, "rows": rows, "peak": peak}) + "\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        paths = {kind: corpus(kind, asked.megabytes, Path(folder)) for kind in KINDS}
        (Path(folder) / "larger").mkdir()
        larger = corpus("request-log-json", 8 * asked.megabytes, Path(folder) / "larger")
        wanted = [(kind, paths[kind]) for kind in KINDS] + [("request-log-json", larger)]
        wanted += [(kind, part) for kind in REQUEST_LOGS for part in fetches_and_others(paths[kind])]
        wanted += [(name, paths["request-log-json"]) for name in MEASURED]
        sys.stdout.write(table((name, path, measured(name, path)) for name, path in wanted))


if __name__ == "__main__":
    main()
