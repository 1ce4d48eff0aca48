"""What a skilled user would write instead, beside the audit: three checks on the raw logs of a cluster.

    python -m benchmarks.peers CAPTURE...        (of one cluster each, JSON request logs; see amplify.py)

The checks: a StopReplica accepted with an older leader epoch than the broker had installed, an accepted ISR with a broker
that was not live, a consumer's first fetch of a leader epoch above the offset where that epoch starts. The scripts are as
good as scripts are: they trust times of two hosts, know no sessions, no restarts, no exceptions, and show no evidence.
On KRaft clusters, which send no UpdateMetadata, their second check takes all brokers for dead.
The audit judges all rules. The smallest Spark program, in an audit's session, shows how fast the machine is.
The table has CPU seconds of all processes, wall seconds and the most memory that they had resident; of several captures also
the CPU seconds that one more gigabyte takes.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from benchmarks.process_tree import measured

ROOT: Final = Path(__file__).parent.parent
STARTS: Final = re.compile(
    r"^\[([^\]]+)\] INFO \[Broker id=\d+\] (Leader|Follower) (\S+)-(\d+)(?: with topic id Some\((\S+)\))? "
    r"starts at leader epoch (\d+) from offset (\d+)"
)
MARK: Final = "Completed request:"
APIS: Final = ("STOP_REPLICA", "ALTER_PARTITION", "UPDATE_METADATA", "FETCH")
NEVER: Final = (float("inf"), 0)

Counts = tuple[int, int, int]
Partition = tuple[str, int]


def milliseconds(stamp: str) -> float:
    return datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f").timestamp() * 1000


def brokers(capture: Path) -> list[Path]:
    return sorted(path for path in capture.glob("broker-*") if path.is_dir())


class Python:
    """Plain Python, one pass over each file."""

    def __init__(self, capture: Path) -> None:
        self.capture = capture
        self.names: dict[str, str] = {}
        self.held: dict[tuple[str, Partition], list[tuple[float, int]]] = defaultdict(list)
        self.started: dict[Partition, dict[int, int]] = defaultdict(dict)
        self.fetched: dict[tuple[str, Partition], dict[int, tuple[float, int]]] = defaultdict(dict)
        self.stops = self.isrs = 0

    def run(self) -> Counts:
        for broker in brokers(self.capture):
            self.starts(broker)
        for broker in brokers(self.capture):
            self.requests(broker)
        return self.stops, self.isrs, self.crossings()

    def starts(self, broker: Path) -> None:
        with (broker / "state-change.log").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if found := STARTS.match(line):
                    stamp, role, topic, partition, topic_id, epoch, offset = found.groups()
                    self.held[broker.name, (topic, int(partition))].append((milliseconds(stamp), int(epoch)))
                    if topic_id:
                        self.names[topic_id] = topic
                    if role == "Leader":
                        self.started[topic, int(partition)][int(epoch)] = int(offset)

    def requests(self, broker: Path) -> None:
        live: set[int] = set()
        with (broker / "kafka-request.log").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                at = line.find('"requestApiKeyName":"') + 21
                api = line[at : line.find('"', at)]
                if api not in APIS:
                    continue
                done = json.loads(line[line.find(MARK) + len(MARK) : line.rfind("}") + 1])
                ended = milliseconds(line[1:24])
                request, response = done["request"], done["response"]
                if api == "UPDATE_METADATA":
                    live = {one["id"] for one in request["liveBrokers"]}
                elif api == "ALTER_PARTITION":
                    self.isr(request, response, live)
                elif api == "STOP_REPLICA":
                    self.stop(broker.name, request, response, ended - done["totalTimeMs"])
                elif request.get("replicaId", request.get("replicaState", {}).get("replicaId", -1)) == -1:
                    self.fetch(broker.name, done["requestHeader"]["clientId"], request, response, ended)

    def epoch_at(self, broker: str, partition: Partition, at: float) -> int:
        held = self.held.get((broker, partition), [])
        before = bisect_right(held, (at, 1 << 31)) - 1
        return held[before][1] if before >= 0 else -1

    def stop(self, broker: str, request: Any, response: Any, at: float) -> None:
        codes = {(e["topicName"], e["partitionIndex"]): e["errorCode"] for e in response["partitionErrors"]}
        for topic in request["topicStates"]:
            for state in topic["partitionStates"]:
                partition = topic["topicName"], state["partitionIndex"]
                older = 0 <= state["leaderEpoch"] < self.epoch_at(broker, partition, at)
                self.stops += older and codes.get(partition) == 0

    def isr(self, request: Any, response: Any, live: set[int]) -> None:
        codes = {
            (t.get("topicId"), p["partitionIndex"]): p["errorCode"] for t in response["topics"] for p in t["partitions"]
        }
        for topic in request["topics"]:
            for state in topic["partitions"]:
                isr = {one["brokerId"] for one in state.get("newIsrWithEpochs", ())} | set(state.get("newIsr", ()))
                self.isrs += codes.get((topic.get("topicId"), state["partitionIndex"])) == 0 and bool(isr - live)

    def fetch(self, broker: str, client: str, request: Any, response: Any, at: float) -> None:
        codes = {
            (t.get("topicId") or t.get("topic"), p["partitionIndex"]): p["errorCode"]
            for t in response["responses"]
            for p in t["partitions"]
        }
        for topic in request["topics"]:
            key = topic.get("topicId") or topic.get("topic")
            for asked in topic["partitions"]:
                if codes.get((key, asked["partition"]), 0):
                    continue
                partition = self.names.get(key, key), asked["partition"]
                epoch = asked.get("currentLeaderEpoch", -1)
                epoch = epoch if epoch >= 0 else self.epoch_at(broker, partition, at)
                first = self.fetched[client, partition]
                first[epoch] = min(first.get(epoch, NEVER), (at, asked["fetchOffset"]))

    def crossings(self) -> int:
        found = 0
        for (_, partition), firsts in self.fetched.items():
            epochs = sorted(firsts)
            for before, epoch in pairwise(epochs):
                offset, starts = firsts[epoch][1], self.started[partition]
                found += any(offset > start for e, start in starts.items() if before < e <= epoch)
        return found


DUCKDB: Final = r"""
create temp table starts as
  select broker, epoch_ms(strptime(f.stamp, '%Y-%m-%d %H:%M:%S,%g')) as ts, f.role, f.topic, f.part::int as part,
         nullif(f.topic_id, '') as topic_id, f.epoch::int as epoch, f.start::bigint as start
  from (select parse_filename(parse_dirpath(filename)) as broker,
               regexp_extract(l, '{starts}', ['stamp', 'role', 'topic', 'part', 'topic_id', 'epoch', 'start']) as f
        from read_csv('{capture}/broker-*/state-change.log', columns={{'l': 'varchar'}}, delim='\x01', quote='', escape='',
                      header=false, auto_detect=false, filename=true) where contains(l, 'starts at leader epoch'))
  where f.epoch <> '';
create temp table names as select distinct topic_id, topic from starts where topic_id is not null;
create temp table done as
  select parse_filename(parse_dirpath(filename)) as broker, epoch_ms(strptime(l[2:24], '%Y-%m-%d %H:%M:%S,%g')) as ts,
         regexp_extract(l, '"requestApiKeyName":"(\w+)"', 1) as api,
         from_json(l[instr(l, 'Completed request:') + 18 : length(l) - 23], '{schema}') as d
  from read_csv('{capture}/broker-*/kafka-request.log', columns={{'l': 'varchar'}}, delim='\x01', quote='', escape='',
                header=false, auto_detect=false, filename=true, max_line_size=10000000)
  where contains(l, '"requestApiKeyName":"FETCH"') or contains(l, '"requestApiKeyName":"STOP_REPLICA"')
     or contains(l, '"requestApiKeyName":"ALTER_PARTITION"') or contains(l, '"requestApiKeyName":"UPDATE_METADATA"');
create temp table stops as
  select broker, ts - d.totalTimeMs as ts, t.topicName as topic, p.partitionIndex as part, p.leaderEpoch as epoch
  from (select *, unnest(d.request.topicStates) as t from done where api = 'STOP_REPLICA'), unnest(t.partitionStates) as u(p)
  where list_contains(list_transform(d.response.partitionErrors, lambda e: e.topicName || '-' || e.partitionIndex || ':' || e.errorCode),
                      t.topicName || '-' || p.partitionIndex || ':0');
create temp table isrs as
  select broker, ts, coalesce(list_transform(p.newIsrWithEpochs, lambda r: r.brokerId), p.newIsr) as isr
  from (select *, unnest(d.request.topics) as t from done where api = 'ALTER_PARTITION'), unnest(t.partitions) as u(p)
  where list_contains(flatten(list_transform(d.response.topics, lambda a: list_transform(a.partitions,
                      lambda b: coalesce(a.topicId, '') || b.partitionIndex || ':' || b.errorCode))),
                      coalesce(t.topicId, '') || p.partitionIndex || ':0');
create temp table live as
  select broker, ts, list_transform(d.request.liveBrokers, lambda b: b.id) as ids from done where api = 'UPDATE_METADATA';
create temp table fetched as
  select broker, ts, d.requestHeader.clientId as client, coalesce(n.topic, t.topic) as topic, p.partition as part,
         p.currentLeaderEpoch as epoch, p.fetchOffset as o
  from (select *, unnest(d.request.topics) as t from done
        where api = 'FETCH' and coalesce(d.request.replicaState.replicaId, d.request.replicaId, -1) = -1)
       left join names n on n.topic_id = t.topicId, unnest(t.partitions) as u(p)
  where not list_contains(flatten(list_transform(d.response.responses, lambda a: list_transform(a.partitions,
              lambda b: coalesce(a.topicId, a.topic) || b.partitionIndex || ':' || (b.errorCode <> 0)))),
              coalesce(t.topicId, t.topic) || p.partition || ':true');
create temp table firsts as
  select client, topic, part, q, arg_min(o, ts) as o, lag(q) over (partition by client, topic, part order by q) as before
  from (select f.* exclude epoch, case when f.epoch >= 0 then f.epoch else coalesce(s.epoch, -1) end as q
        from fetched f asof left join starts s on s.broker = f.broker and s.topic = f.topic and s.part = f.part and s.ts <= f.ts)
  group by client, topic, part, q;
select (select count(*) from stops x asof join starts s on s.broker = x.broker and s.topic = x.topic and s.part = x.part
                                                        and s.ts <= x.ts where x.epoch >= 0 and x.epoch < s.epoch),
       (select count(*) from isrs i asof left join live v on v.broker = i.broker and v.ts <= i.ts
        where not list_has_all(coalesce(v.ids, []), i.isr)),
       (select count(*) from firsts f where exists (select 1 from starts s where s.role = 'Leader' and s.topic = f.topic
          and s.part = f.part and s.epoch > f.before and s.epoch <= f.q and f.o > s.start))
"""
SCHEMA: Final = {
    "requestHeader": {"clientId": "VARCHAR"},
    "totalTimeMs": "DOUBLE",
    "request": {
        "replicaId": "INT",
        "replicaState": {"replicaId": "INT"},
        "liveBrokers": [{"id": "INT"}],
        "topicStates": [{"topicName": "VARCHAR", "partitionStates": [{"partitionIndex": "INT", "leaderEpoch": "INT"}]}],
        "topics": [
            {
                "topicId": "VARCHAR",
                "topic": "VARCHAR",
                "partitions": [
                    {
                        "partition": "INT",
                        "partitionIndex": "INT",
                        "currentLeaderEpoch": "INT",
                        "fetchOffset": "BIGINT",
                        "newIsr": ["INT"],
                        "newIsrWithEpochs": [{"brokerId": "INT"}],
                    }
                ],
            }
        ],
    },
    "response": {
        "partitionErrors": [{"topicName": "VARCHAR", "partitionIndex": "INT", "errorCode": "INT"}],
        "topics": [{"topicId": "VARCHAR", "partitions": [{"partitionIndex": "INT", "errorCode": "INT"}]}],
        "responses": [
            {"topicId": "VARCHAR", "topic": "VARCHAR", "partitions": [{"partitionIndex": "INT", "errorCode": "INT"}]}
        ],
    },
}


def duckdb(capture: Path) -> Counts:
    """SQL by hand, on all cores."""
    import duckdb

    connection = duckdb.connect()
    text = DUCKDB.format(capture=capture, schema=json.dumps(SCHEMA), starts=STARTS.pattern.replace("'", "''"))
    *tables, question = text.split(";\n")
    for table in tables:
        connection.execute(table)
    (counts,) = connection.execute(question).fetchall()
    return counts[0], counts[1], counts[2]


def polars(capture: Path) -> Counts:
    """Lazy frames with a declared schema; the same tables as the SQL."""
    import polars as pl

    kinds = {"INT": pl.Int32, "BIGINT": pl.Int64, "VARCHAR": pl.String, "DOUBLE": pl.Float64}

    def declared(fields: object) -> Any:
        if isinstance(fields, dict):
            return pl.Struct({name: declared(field) for name, field in fields.items()})
        return pl.List(declared(fields[0])) if isinstance(fields, list) else kinds[str(fields)]()

    def lines(name: str) -> pl.LazyFrame:
        files = [
            pl.scan_csv(broker / name, separator="\x01", has_header=False, quote_char=None, schema={"l": pl.String})
            .with_columns(broker=pl.lit(broker.name))
            for broker in brokers(capture)
        ]  # fmt: skip
        return pl.concat(files)

    line, at = (
        pl.col("l"),
        pl.col("l").str.slice(1, 23).str.to_datetime("%Y-%m-%d %H:%M:%S,%3f").dt.epoch("ms").alias("at"),
    )
    fields = dict(enumerate(("role", "topic", "part", "id", "epoch", "start"), 2))
    starts = (
        lines("state-change.log")
        .filter(line.str.contains("starts at leader epoch", literal=True))
        .select("broker", at, *(line.str.extract(STARTS.pattern, n).alias(name) for n, name in fields.items()))
        .drop_nulls("epoch")
        .cast({"part": pl.Int32, "epoch": pl.Int32, "start": pl.Int64})
        .collect()
    )  # fmt: skip
    names = starts.drop_nulls("id").select(id="id", named="topic").unique()
    api = line.str.extract(r'"requestApiKeyName":"(\w+)"', 1)
    done = (
        lines("kafka-request.log")
        .with_columns(api=api)
        .filter(pl.col("api").is_in(APIS))
        .select("broker", "api", at, d=line.str.slice(50).str.strip_suffix(" (kafka.request.logger)").str.json_decode(declared(SCHEMA)))
        .collect()
    )  # fmt: skip
    d, request, response = pl.col("d").struct, pl.col("request").struct, pl.col("response").struct
    done = done.with_columns(
        row=pl.int_range(pl.len()), request=d.field("request"), response=d.field("response"), took=d.field("totalTimeMs"),
        client=d.field("requestHeader").struct.field("clientId"),
    )  # fmt: skip

    def listed(of: pl.DataFrame, topics: Any, inner: str) -> pl.DataFrame:
        rows = of.with_columns(t=topics).explode("t").drop_nulls("t")
        return (
            rows.with_columns(pl.col("t").struct.unnest())
            .explode(inner)
            .drop_nulls(inner)
            .with_columns(pl.col(inner).struct.unnest())
        )

    stopped = done.filter(pl.col("api") == "STOP_REPLICA")
    codes = (
        stopped.select("row", e=response.field("partitionErrors"))
        .explode("e")
        .select("row", pl.col("e").struct.unnest())
    )
    stops = listed(stopped, request.field("topicStates"), "partitionStates").join(
        codes, on=["row", "topicName", "partitionIndex"]
    )
    stops = stops.filter((pl.col("errorCode") == 0) & (pl.col("leaderEpoch") >= 0)).with_columns(
        at=(pl.col("at") - pl.col("took")).cast(pl.Int64), topic="topicName", part="partitionIndex"
    )
    by = ["broker", "topic", "part"]
    held = starts.sort("at").select(*by, "at", "epoch")
    stale = stops.select(*by, "at", "leaderEpoch").sort("at").join_asof(held, on="at", by=by, check_sortedness=False)
    altered = done.filter(pl.col("api") == "ALTER_PARTITION")
    answered = listed(altered.select("row", response="response"), response.field("topics"), "partitions")
    accepted = answered.filter(pl.col("errorCode") == 0).select("row", "topicId", "partitionIndex")
    isrs = listed(altered.drop("response"), request.field("topics"), "partitions").join(
        accepted, on=["row", "topicId", "partitionIndex"], nulls_equal=True
    )
    proposed = pl.col("newIsrWithEpochs").list.eval(pl.element().struct.field("brokerId"))
    live = done.filter(pl.col("api") == "UPDATE_METADATA").select(
        "broker", "at", ids=request.field("liveBrokers").list.eval(pl.element().struct.field("id"))
    )
    dead = (
        isrs.select("broker", "at", isr=pl.coalesce(proposed, "newIsr"))
        .sort("at")
        .join_asof(live.sort("at"), on="at", by="broker", check_sortedness=False)
    )
    outside = dead.filter(
        pl.col("isr").list.set_difference(pl.coalesce("ids", pl.lit([], pl.List(pl.Int32)))).list.len() > 0
    )
    replica = pl.coalesce(
        request.field("replicaState").struct.field("replicaId"), request.field("replicaId"), pl.lit(-1)
    )
    fetched = done.filter((pl.col("api") == "FETCH") & (replica == -1))
    refused = listed(fetched.select("row", response="response"), response.field("responses"), "partitions").filter(
        pl.col("errorCode") != 0
    )
    refused = refused.select("row", key=pl.coalesce("topicId", "topic"), partition="partitionIndex")
    asked = listed(fetched.drop("response"), request.field("topics"), "partitions").with_columns(
        key=pl.coalesce("topicId", "topic")
    )
    asked = asked.join(refused, on=["row", "key", "partition"], how="anti").join(
        names, left_on="topicId", right_on="id", how="left"
    )
    asked = asked.with_columns(topic=pl.coalesce("named", "topic"), part="partition").sort("at")
    asked = asked.join_asof(held, on="at", by=by, check_sortedness=False)
    epoch = pl.when(pl.col("currentLeaderEpoch") >= 0).then("currentLeaderEpoch").otherwise(pl.coalesce("epoch", -1))
    who = ["client", "topic", "part"]
    firsts = asked.with_columns(q=epoch).group_by(*who, "q").agg(o=pl.col("fetchOffset").sort_by("at").first())
    firsts = firsts.sort("q").with_columns(before=pl.col("q").shift(1).over(who))
    leaders = starts.filter(pl.col("role") == "Leader").select("topic", "part", "epoch", "start")
    crossed = firsts.join(leaders, on=["topic", "part"]).filter(
        (pl.col("epoch") > pl.col("before")) & (pl.col("epoch") <= pl.col("q")) & (pl.col("o") > pl.col("start"))
    )
    return (
        stale.filter(pl.col("leaderEpoch") < pl.col("epoch")).height,
        outside.height,
        crossed.select(*who, "q").unique().height,
    )


def audit(capture: Path) -> Counts:
    """All rules; returns the findings of the three that answer the same questions."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "audit.json"
        command = [sys.executable, "-m", "epochaudit", "audit", str(capture), "--format", "json", "--output", str(out)]
        subprocess.run(command, check=False, stderr=subprocess.DEVNULL, cwd=ROOT)
        found = [finding["rule"] for finding in json.loads(out.read_text())["findings"]]
    return found.count("SR-01") + found.count("SR-03"), found.count("IS-05"), found.count("TR-01")


def spark(_capture: Path) -> Counts:
    """Start Spark as an audit does, and count ten rows."""
    from epochaudit.spark.session import session

    session(plain_bytes=0).range(10).groupBy().count().collect()
    return 0, 0, 0


CONTENDERS: Final[Mapping[str, Callable[[Path], Counts]]] = {
    "the smallest Spark program": spark,
    "epochaudit, all rules": audit,
    "DuckDB, three checks": duckdb,
    "polars, three checks": polars,
    "Python, three checks": lambda capture: Python(capture).run(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("captures", nargs="*", type=Path)
    parser.add_argument("--run", nargs=2, metavar=("WHAT", "CAPTURE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.run:
        name, capture = asked.run
        sys.stdout.write(json.dumps(CONTENDERS[name](Path(capture))) + "\n")
        return
    lines = ["| what | MB | CPU s | wall s | peak MB | found |", "|---|---|---|---|---|---|"]
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for capture in asked.captures:
        size = sum(file.stat().st_size for file in capture.rglob("*") if file.is_file()) / 1e6
        for name in CONTENDERS:
            spent = measured(
                [sys.executable, "-m", "benchmarks.peers", "--run", name, str(capture.resolve())], cwd=ROOT
            )
            counts = json.loads(spent.output.splitlines()[-1]) if spent.exit_code == 0 else None
            points[name].append((size, spent.cpu_seconds))
            lines.append(
                f"| {name} | {size:.0f} | {spent.cpu_seconds:.1f} | {spent.wall_seconds:.1f} | {spent.peak_bytes / 1e6:.0f} | {counts} |"
            )
    if len(asked.captures) > 1:
        lines += ["", "| what | CPU s per further GB |", "|---|---|"]
        for name, measurements in points.items():
            (small, first), (large, last) = min(measurements), max(measurements)
            lines.append(f"| {name} | {(last - first) / (large - small) * 1000:.1f} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
