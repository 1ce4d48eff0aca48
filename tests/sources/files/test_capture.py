"""What a directory of recorded files turns out to be by its content."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from epochaudit.sources.discovery.discovery import discover
from epochaudit.sources.files.capture import Capture, CaptureError, CaptureFile, Node, ReplacedFileError

REQUEST = (
    '[2026-11-21 0%d:00:00,000] DEBUG Completed request:{"requestHeader":{"requestApiVersion":4,"correlationId":1,'
    '"requestApiKeyName":"%s"},"request":%s,"response":%s,"connection":"10.0.0.%d:%d-10.0.0.9:4000-1","totalTimeMs":1.0,'
    '"requestQueueTimeMs":0.1,"localTimeMs":0.5} (kafka.request.logger)\n'
)
STATE = "[2026-11-21 01:00:00,000] INFO [Broker id=%d] Add 1 partitions (state.change.logger)\n"
SERVER = "[2026-11-21 01:00:00,000] INFO [KafkaServer id=%d] started (kafka.server.KafkaServer)\n"
META = "#\n#Sat Nov 21 04:29:14 UTC 2026\nbroker.id=%d\nversion=0\ncluster.id=%s\n"


def request(
    hour: int = 1, api: str = "HEARTBEAT", asked: str = "{}", answered: str = "{}", host: int = 1, port: int = 9092
) -> str:
    return REQUEST % (hour, api, asked, answered, host, port)


def capture(root: Path, files: dict[str, str | bytes]) -> Capture:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content.encode() if isinstance(content, str) else content)
    return discover(str(root))


def nodes(found: Capture) -> dict[str, int | None]:
    return {file.path: file.node for file in found.files}


CONTENTS: dict[str, str | bytes] = {
    "request-log-json": request(),
    "request-log-text": "[2026-11-21 04:43:01,113] DEBUG Completed request:RequestHeader(apiKey=FETCH, apiVersion=4) -- {} (x)\n",
    "state-change-log": STATE % 1,
    "server-log": SERVER % 1,
    "metadata-log-dump": (
        "Dumping 00000000000000000000.log\nbaseOffset: 0 lastOffset: 0 count: 1 partitionLeaderEpoch: 1 isControl: false\n"
        '| offset: 0 CreateTime: 1795235366000 payload: {"type":"TOPIC_RECORD","version":0,"data":{"name":"t"}}\n'
    ),
    "leader-epoch-checkpoint": "0\n2\n0 0\n3 17\n",
    "partition-metadata": "version: 0\ntopic_id: 9gDNO0PzRlKeeIAaGyFvow",
    "meta-properties": META % (1, "abc"),
    "server-properties": "broker.id=1\nzookeeper.connect=localhost:2181\nlog.dirs=/data\n",
    "client-log": "[2026-11-21 04:08:28,174] DEBUG [Producer clientId=p] Setting the last seen epoch (org.apache.kafka.clients.Metadata)\n",
    "empty": b"",
    "unknown": "# What happened\n\nThe OffsetForLeaderEpoch of broker 1 was refused, see\n\n    " + (STATE % 1),
}  # fmt: skip


def test_kinds_are_recognised_by_content_not_by_name(tmp_path: Path) -> None:
    found = capture(tmp_path, {f"file-{number}": content for number, content in enumerate(CONTENTS.values())})
    assert [file.kind for file in sorted(found.files, key=lambda file: int(file.path[5:]))] == list(CONTENTS)


@pytest.mark.parametrize(
    "compress", [gzip.compress, bz2.compress, lzma.compress, lambda text: pa.Codec("zstd").compress(text).to_pybytes()]
)
def test_compressed_files_are_recognised_by_what_is_in_them(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    [file] = capture(tmp_path, {"log": compress(request().encode())}).files
    assert file.kind == "request-log-json"
    assert file.compression is not None
    with file.open() as stream:
        assert stream.read() == request().encode()


def test_a_log_cut_off_within_its_compression_is_still_known(tmp_path: Path) -> None:
    [file] = capture(tmp_path, {"log.gz": gzip.compress(request().encode() * 50)[:-20]}).files
    assert (file.kind, file.compression) == ("request-log-json", "gzip")


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.log").write_text(STATE % 9)
    root = tmp_path / "capture"
    root.mkdir()
    (root / "link.log").symlink_to(outside / "secret.log")
    (root / "folder").symlink_to(outside)
    assert [file.path for file in capture(root, {"state-change.log": STATE % 1}).files] == ["state-change.log"]


# --- nodes


def test_a_files_own_words_tell_its_node_and_those_of_its_neighbours(tmp_path: Path) -> None:
    found = capture(
        tmp_path,
        {"x/state.log": STATE % 4, "x/request.log": request(), "y/server.log": SERVER % 5, "y/request.log": request()},
    )
    assert nodes(found) == {"x/request.log": 4, "x/state.log": 4, "y/request.log": 5, "y/server.log": 5}


@pytest.mark.parametrize(
    ("message", "roles"),
    [
        ("[Broker id=4] Add 1 partitions", ("broker",)),
        ("[Controller id=4 epoch=2] Changed partition t-0", ()),
        ("[Controller id=4, targetBrokerId=5] Node 5 disconnected", ()),
        ("[Controller 4] Becoming the active controller at epoch 1", ("controller",)),
        ("[QuorumController id=4] Becoming the active controller at epoch 1", ("controller",)),
        ("[ControllerServer id=4] Starting controller", ("controller",)),
        ("[RaftManager nodeId=4] Graceful shutdown completed", ()),
        ("[RaftManager id=4] Graceful shutdown completed", ()),
        ("[KafkaApi-4] Shutdown complete", ("broker",)),
        ("[ReplicaManager broker=4] Shutting down", ("broker",)),
        ("[GroupCoordinator 4]: Startup complete", ("broker",)),
        ("[Partition t-0 broker=4] Expanding ISR from 1 to 1,2", ()),
        ("[ReplicaFetcherManager on broker 4] Removed fetcher for partitions Set(t-0)", ()),
    ],
)
def test_who_speaks_in_a_log(tmp_path: Path, message: str, roles: tuple[str, ...]) -> None:
    line = f"[2026-11-21 01:00:00,000] INFO {message} (kafka.server.KafkaServer)\n"
    assert capture(tmp_path, {"x/server.log": line}).nodes == (Node(4, roles),)


def test_what_a_message_quotes_names_no_node(tmp_path: Path) -> None:
    quoted = "[2026-11-21 01:00:00,000] INFO App info of client [Broker id=9] registered (kafka.server.KafkaServer)\n"
    found = capture(tmp_path, {"x/server.log": (SERVER % 4) + quoted})
    assert nodes(found) == {"x/server.log": 4}


def test_connections_tell_the_node_of_requests_as_text(tmp_path: Path) -> None:
    line = (
        "[2026-11-21 04:43:01,113] DEBUG Completed request:RequestHeader(apiKey=%s, apiVersion=4, clientId=3, correlationId=0) --"
        " %s from connection 10.0.0.%d:9092-10.0.0.9:50682-0;totalTime:28.051 (kafka.request.logger)\n"
    )
    live = (
        "{controller_id=3,live_brokers=[{id=4,end_points=[{port=9092,host=10.0.0.1,listener_name=P,security_protocol_type=0}],"
        "rack=null},{id=5,v0_host=,v0_port=0,endpoints=[{port=9092,host=10.0.0.2,listener=P}],rack=null}]},response:{error_code=0}"
    )
    brokers = "{topics=[]},response:{brokers=[{node_id=6,host=10.0.0.3,port=9092,rack=null}],cluster_id=x}"
    found = capture(
        tmp_path,
        {
            "x.log": line % ("UPDATE_METADATA", live, 1),
            "y.log": line % ("METADATA", brokers, 2),
            "z.log": line % ("FETCH", "{},response:{}", 3),
            "0.log": line % ("FETCH", "{},response:{}", 7),
        },
    )
    assert nodes(found) == {"0.log": None, "x.log": 4, "y.log": 5, "z.log": 6}


def test_meta_properties_below_or_beside_the_logs_tell_the_node(tmp_path: Path) -> None:
    found = capture(
        tmp_path,
        {
            "x/request.log": request(),
            "x/data/meta.properties": META % (4, "c"),
            "y/logs/request.log": request(),
            "y/data/meta.properties": META % (5, "c"),
        },
    )
    assert (nodes(found)["x/request.log"], nodes(found)["y/logs/request.log"]) == (4, 5)


def test_a_neighbour_in_a_folder_of_several_nodes_is_no_evidence(tmp_path: Path) -> None:
    found = capture(
        tmp_path,
        {"dc/a/request.log": request(), "dc/a/meta.properties": META % (4, "c"), "dc/b/request.log": request()},
    )
    assert nodes(found)["dc/b/request.log"] is None


def test_connections_tell_the_node_by_announced_end_points(tmp_path: Path) -> None:
    live = '{"liveBrokers":[{"id":4,"endpoints":[{"host":"10.0.0.1","port":9092}]},{"id":5,"endpoints":[{"host":"10.0.0.2","port":9092}]}]}'
    first = request(api="UPDATE_METADATA", asked=live, host=1)
    found = capture(tmp_path, {"x.log": first, "y.log": request(host=2), "z.log": request(host=3)})
    assert nodes(found) == {"x.log": 4, "y.log": 5, "z.log": None}


def test_settings_tell_the_end_points_of_their_node_and_of_controllers(tmp_path: Path) -> None:
    dump = (
        "[2026-11-21 01:00:00,000] INFO KafkaConfig values: \n\tcontroller.quorum.voters = [9@10.0.0.3:9093]\n"
        "\tlisteners = PLAINTEXT://10.0.0.1:9092\n (org.apache.kafka.common.config.AbstractConfig)\n"
    )
    requests = {f"h{host}-/r": request(host=host, port=port) for host, port in ((1, 9092), (2, 9092), (3, 9093))}
    found = capture(tmp_path, {"x/server.log": (SERVER % 4) + dump, **requests})
    assert nodes(found) == {"x/server.log": 4, "h1-/r": 4, "h2-/r": None, "h3-/r": 9}


def test_ports_alone_tell_the_node_only_where_each_has_its_own(tmp_path: Path) -> None:
    properties = "node.id=%d\nprocess.roles=broker\nlisteners=PLAINTEXT://:%d\n"
    with_evidence = capture(
        tmp_path / "1",
        {
            "a.properties": properties % (4, 9092),
            "b.properties": properties % (5, 9093),
            "logs/x": request(port=9093),
            "more/y": request(port=9092),
        },
    )
    assert (nodes(with_evidence)["logs/x"], nodes(with_evidence)["more/y"]) == (5, 4)
    without_evidence = capture(
        tmp_path / "2",
        {"a.properties": properties % (4, 9092), "b.properties": properties % (5, 9092), "logs/x": request(port=9092)},
    )
    assert nodes(without_evidence)["logs/x"] is None


@pytest.mark.parametrize(
    ("folder", "node"),
    [("broker-7", 7), ("kafka2/logs", 2), ("3", 3), ("logs", None), ("2026-11-21", None), ("kafka-3.9.1", None)],
)
def test_the_folders_name_is_the_last_resort(tmp_path: Path, folder: str, node: int | None) -> None:
    assert nodes(capture(tmp_path, {f"{folder}/request.log": request()})) == {f"{folder}/request.log": node}


def test_the_roots_own_name_is_no_nodes(tmp_path: Path) -> None:
    assert nodes(capture(tmp_path / "broker-7", {"request.log": request()})) == {"request.log": None}


def test_a_partitions_folder_is_no_nodes(tmp_path: Path) -> None:
    found = capture(tmp_path, {"request.log": request(), "data/t-9/leader-epoch-checkpoint": "0\n0\n"})
    assert nodes(found)["data/t-9/leader-epoch-checkpoint"] is None


def test_a_file_collected_from_a_partitions_folder_lies_in_its_nodes(tmp_path: Path) -> None:
    found = capture(tmp_path, {"request.log": request(), "broker-3/t-9.leader-epoch-checkpoint": "0\n0\n"})
    assert nodes(found)["broker-3/t-9.leader-epoch-checkpoint"] == 3


def test_a_metadata_log_belongs_to_the_cluster(tmp_path: Path) -> None:
    found = capture(tmp_path, {"n1/server.log": SERVER % 1, "n1/dump.txt": CONTENTS["metadata-log-dump"]})
    assert nodes(found) == {"n1/server.log": 1, "n1/dump.txt": None}


# --- clusters, roles, order


def test_the_cluster_is_named_by_its_id_else_by_the_folder(tmp_path: Path) -> None:
    assert capture(tmp_path / "night", {"request.log": request()}).cluster == "night"
    assert capture(tmp_path / "more", {"request.log": request(), "meta.properties": META % (1, "abc")}).cluster == "abc"


def test_files_of_two_clusters_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"files of 2 clusters \(abc, xyz\)"):
        capture(tmp_path, {"a/m": META % (1, "abc"), "b/m": META % (2, "xyz"), "request.log": request()})


def test_roles_are_read_from_configuration_and_from_the_logs(tmp_path: Path) -> None:
    properties = "node.id=3\nprocess.roles=broker, controller\nlisteners=PLAINTEXT://:1\n"
    found = capture(
        tmp_path, {"x/server.log": SERVER % 4, "y/server.properties": properties, "y/request.log": request()}
    )
    assert found.nodes == (Node(3, ("broker", "controller")), Node(4, ("broker",)))


def test_rotated_files_are_ordered_by_their_first_line(tmp_path: Path) -> None:
    files = {
        "broker-1/kafka-request.log": request(3),
        "broker-1/kafka-request.log.1": request(2),
        "broker-1/kafka-request.log.2026-11-21-01.gz": gzip.compress(request(1).encode()),
        "broker-1/state-change.log": STATE % 1,
        "broker-2/kafka-request.log": request(1),
    }
    order = {file.path: file.file_order for file in capture(tmp_path, files).files}
    assert [order[path] for path in files] == [3, 2, 0, 1, 0]


def test_files_that_begin_in_the_same_millisecond_are_ordered_by_their_rotations(tmp_path: Path) -> None:
    rotated = ("server.log.100", "server.log.99.gz", "server.log.9", "server.log")
    contents = [(SERVER % 1) + f"# {name}\n" for name in rotated]  # each another file
    files = {
        f"b/{name}": text if ".gz" not in name else gzip.compress(text.encode())
        for name, text in zip(rotated, contents, strict=True)
    }
    order = {file.path: file.file_order for file in capture(tmp_path, files).files}
    assert [order[path] for path in files] == [0, 1, 2, 3]


# --- capture.toml


def test_the_manifest_outranks_what_is_detected(tmp_path: Path) -> None:
    manifest = """
        cluster = "payments"
        time_zone = "Europe/Berlin"
        [[nodes]]
        id = 7
        path = "a"
        roles = ["broker"]
        kafka = "3.9.1"
        [[nodes]]
        id = 8
        path = "a/b"
        time_zone = "UTC"
    """
    found = capture(
        tmp_path,
        {"capture.toml": manifest, "a/state.log": STATE % 4, "a/b/state.log": STATE % 5, "c/state.log": STATE % 6},
    )
    assert found.cluster == "payments"
    assert [(file.path, file.node, file.time_zone) for file in found.files] == [
        ("a/b/state.log", 8, "UTC"),
        ("a/state.log", 7, "Europe/Berlin"),
        ("c/state.log", 6, "Europe/Berlin"),
        ("capture.toml", None, "Europe/Berlin"),
    ]
    assert found.nodes[1] == Node(7, ("broker",), "3.9.1", "Europe/Berlin")


@pytest.mark.parametrize(
    ("manifest", "complaint"),
    [
        ("cluster = ", "capture.toml is not valid TOML: "),
        ("cluter = 'c'", "capture.toml: unknown key 'cluter'; did you mean 'cluster'?"),
        (
            "owner = 'c'",
            "unknown key 'owner'; known keys: cluster, time_zone, nodes, pattern, metadata_version, request_log",
        ),
        ("cluster = 3", "capture.toml: cluster has to be a string, found 3"),
        ("metadata_version = 3.5", "capture.toml: metadata_version has to be an integer, found 3.5"),
        ("request_log = 'dark'", "capture.toml: request_log has to be one of light, found 'dark'"),
        ("time_zone = 'Mars/Base'", "capture.toml: time zone 'Mars/Base' is unknown"),
        (
            "[[nodes]]\npath = 'a'",
            "capture.toml, [[nodes]] 1: id is missing; it has to be an integer, the broker.id or node.id",
        ),
        (
            "[[nodes]]\nid = 1\n[[nodes]]\nid = true",
            "capture.toml, [[nodes]] 2: id has to be an integer, the broker.id or node.id, found True",
        ),
        ("[[nodes]]\nid = 1\nzone = 'UTC'", "[[nodes]] 1: unknown key 'zone'; did you mean 'time_zone'?"),
        (
            "[[nodes]]\nid = 1\nroles = ['boss']",
            "capture.toml, [[nodes]] 1: roles has to be a list of any of broker, controller, found ['boss']",
        ),
        ("[[nodes]]\nid = 1\ntime_zone = 'x'", "capture.toml, [[nodes]] 1: time zone 'x' is unknown"),
        ("nodes = [3]", "capture.toml, [[nodes]] 1 has to be a table, found 3"),
        ("nodes = 3", "capture.toml: nodes has to be a list of tables, found 3"),
        ("[[nodes]]\nid = 1\npath = 'a'\n[[nodes]]\nid = 2\npath = 'a'", "gives the path 'a' to two nodes"),
    ],
)
def test_a_wrong_manifest_is_refused_with_what_is_wrong(tmp_path: Path, manifest: str, complaint: str) -> None:
    with pytest.raises(CaptureError, match=re.escape(complaint)):
        capture(tmp_path, {"capture.toml": manifest, "state.log": STATE % 1})


# --- no capture


def test_a_mistyped_path_gets_the_nearest_one(tmp_path: Path) -> None:
    (tmp_path / "last-night").mkdir()
    for mistyped in ("last-nigth", "last-nigth/broker-1", "last-nigth/"):
        with pytest.raises(CaptureError, match=f"did you mean {tmp_path}/last-night\\?"):
            discover(str(tmp_path / mistyped))
    with pytest.raises(CaptureError, match=r"no such file or directory$"):
        discover(str(tmp_path / "zzz"))


def test_what_is_no_capture_is_refused_with_what_was_found(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no such file or directory"):
        discover(str(tmp_path / "missing"))
    with pytest.raises(CaptureError, match="is empty"):
        discover(str(tmp_path))
    (tmp_path / "notes.txt").write_text("nothing here")
    with pytest.raises(
        CaptureError, match=r"found 1 unknown \(notes.txt\); expected Kafka's own logs, such as server.log"
    ):
        discover(str(tmp_path))
    with pytest.raises(CaptureError, match="found 1 unknown"):
        discover(str(tmp_path / "notes.txt"))
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("nothing here")
    with pytest.raises(CaptureError, match=r"found 4 unknown \(a, b, c and 1 more\); expected"):
        discover(str(tmp_path))


def test_an_archive_that_is_not_read_is_to_be_unpacked(tmp_path: Path) -> None:
    (tmp_path / "logs.ZIP").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(CaptureError, match=r"1 unknown \(logs.ZIP\); unpack logs.ZIP: of archives only tar is read"):
        discover(str(tmp_path))


def test_a_file_is_found_by_its_path(tmp_path: Path) -> None:
    found = capture(tmp_path, {"a/state.log": STATE % 1})
    file = found.file("a/state.log")
    assert isinstance(file, CaptureFile)
    with pytest.raises(KeyError):
        found.file("b")


def test_lines_may_end_in_crlf(tmp_path: Path) -> None:
    found = capture(
        tmp_path, {"state.log": (STATE % 4).replace("\n", "\r\n"), "server.log": (SERVER % 4).replace("\n", "\r\n")}
    )
    assert {file.path: file.kind for file in found.files} == {
        "state.log": "state-change-log",
        "server.log": "server-log",
    }


def test_a_log_whose_lines_are_newest_first_is_named(tmp_path: Path) -> None:
    hours = [request(hour) for hour in range(8)]
    with pytest.raises(CaptureError, match=r"the lines of b/new\.log are newest first"):
        capture(tmp_path, {"a/old.log": "".join(hours), "b/new.log": "".join(reversed(hours))})


def test_a_log_that_goes_back_once_is_not_newest_first(tmp_path: Path) -> None:
    hours = [request(hour) for hour in (5, 6, 7, 1, 2, 3, 4, 8)]
    assert nodes(capture(tmp_path, {"a.log": "".join(hours)}))


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_log_that_was_rotated_after_it_was_found_is_not_read_as_another(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    line = b"[2026-11-21 04:18:07,602] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)\n"
    (tmp_path / "1").mkdir()
    log, checkpoint = tmp_path / "1" / "server.log", tmp_path / "1" / "replication-offset-checkpoint"
    log.write_bytes(compress(line * 3))
    checkpoint.write_text("0\n1\norders 0 5\n")
    capture = discover(str(tmp_path))
    with capture.file("1/server.log").open() as stream:
        assert stream.read() == line * 3
    log.rename(tmp_path / "1" / "server.log.1")
    log.write_bytes(compress(line.replace(b"07,602", b"09,100")))
    checkpoint.write_text("0\n1\norders 0 9\n")
    with pytest.raises(ReplacedFileError, match=r"1/server\.log was replaced after it was found"):
        capture.file("1/server.log").open()
    assert b"orders 0 9" in capture.file("1/replication-offset-checkpoint").open().read()
