"""A cluster of real nodes on loopback ports, its clients, and what can be done to them."""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from shutil import rmtree
from time import monotonic, strftime
from typing import Any, Final

from lab.log_settings import client_options, node_options
from lab.node_settings import NodeSettings
from lab.processes import JAVA, Processes, RunError, close, free_ports, wait_for
from lab.programs import Programs
from lab.releases import KRAFT, ZOOKEEPER, Release
from lab.truth import RAW_FROM

CLIENT_HEAP: Final = "-Xmx96m"
STARTED: Final = re.compile(
    r"Kafka Server started \(kafka\.server\.KafkaRaftServer\)|started \(kafka\.server\.KafkaServer\)"
)
REPLICA: Final = re.compile(r"[\w.-]+-\d+")  # the folder of a replica's log
CLIENT_SETTINGS: Final = {
    "request.timeout.ms": 4000,
    "metadata.max.age.ms": 5000,
    "reconnect.backoff.max.ms": 500,
}
# No client sends a record twice: each has one answer or none, which is what its list says.
PRODUCER_SETTINGS: Final = {
    "enable.idempotence": "false",
    "retries": 0,
    "delivery.timeout.ms": 8000,
    "max.block.ms": 5000,
    "linger.ms": 0,
}
LINGER_MS: Final = 3000  # a batch of several records waits for the client's flush


@dataclass(frozen=True)
class Layout:
    """Which nodes a cluster has. `controllers` is for KRaft; with `combined`, the brokers are the controllers.

    linked: brokers reach the controllers, or ZooKeeper, through links that can be cut. migrates: with ZooKeeper there are controllers, too,
    which the scenario starts. disks: log directories of each broker. heap_mb: memory of each node's JVM.
    """

    brokers: tuple[int, ...] = (1, 2, 3)
    controllers: tuple[int, ...] = (100,)
    combined: bool = False
    linked: bool = False
    migrates: bool = False
    disks: int = 1
    heap_mb: int = 256


class Node:
    """A broker or a controller."""

    def __init__(self, cluster: Cluster, number: int, roles: tuple[str, ...], settings: Mapping[str, object]) -> None:
        self.id, self.roles, self._cluster = number, roles, cluster
        self.name = f"{roles[0]}-{number}"
        self.folder = cluster.folder / "nodes" / self.name
        count = cluster.layout.disks if "broker" in roles else 1
        self.disks = [self.folder / (f"data-{number}" if number > 1 else "data") for number in range(1, count + 1)]
        for folder in (self.folder / "logs", *self.disks):
            folder.mkdir(parents=True)
        self.properties = self.folder / "server.properties"
        self.configure(settings)
        self.programs = cluster.programs
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    def configure(self, settings: Mapping[str, object]) -> None:
        """Write the node's settings. They apply from its next start on."""
        directories = {"log.dirs": ",".join(map(str, self.disks))}
        text = "".join(f"{name}={value}\n" for name, value in {**settings, **directories}.items())
        self.properties.write_text(text, "utf-8")

    def start(self, *, wait: bool = True) -> None:
        self._starts = self._logged_starts()
        self._cluster.note(f"{self.name} starts, Kafka {self.programs.release.version}")
        command: list[str | Path] = [
            *JAVA,
            f"-Xmx{self._cluster.layout.heap_mb}m",
            *node_options(self.programs.release, self.folder),
            "-cp",
            self.programs.nodes,
            "kafka.Kafka",
            self.properties,
        ]
        self._process = self._cluster.processes.start(command, self._cluster.output / f"{self.name}.out")
        if wait:
            self.wait_until_started()

    def wait_until_started(self) -> None:
        """Until its own log says so; of a KRaft broker this means that the controller has unfenced it."""

        def started() -> bool:
            if self._running().poll() is not None:
                output = self._cluster.output / f"{self.name}.out"
                raise RunError(f"{self.name} did not start: {output.read_text('utf-8', 'replace')[-2000:]}")
            return self._logged_starts() > self._starts

        wait_for(f"{self.name} starts", started, 90)

    def _logged_starts(self) -> int:
        return self.logged(STARTED)

    def logged(self, line: re.Pattern[str], logs: str = "server.log*") -> int:
        """How often its log has such a line."""
        return sum(len(line.findall(log.read_text("utf-8", "replace"))) for log in (self.folder / "logs").glob(logs))

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RunError(f"{self.name} was not started")
        return self._process

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def terminate(self) -> None:
        self._cluster.note(f"{self.name} shuts down (SIGTERM)")
        self._running().terminate()

    def wait_until_stopped(self, seconds: float = 45) -> None:
        try:
            self._running().wait(seconds)
        except subprocess.TimeoutExpired:
            raise RunError(f"{self.name} did not stop within {seconds:.0f} s") from None

    def stop(self, seconds: float = 45) -> None:
        """A controlled shutdown."""
        self.terminate()
        self.wait_until_stopped(seconds)

    def kill(self) -> None:
        self._cluster.note(f"{self.name} dies (SIGKILL)")
        self._running().kill()
        self._running().wait()

    def freeze(self) -> None:
        self._cluster.note(f"{self.name} is frozen (SIGSTOP)")
        self._running().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._cluster.note(f"{self.name} goes on (SIGCONT)")
        self._running().send_signal(signal.SIGCONT)


class Client:
    """A Java program of lab/java. `events` is what it prints: the answers that it got."""

    def __init__(self, cluster: Cluster, name: str, command: Sequence[str | Path]) -> None:
        self.name, self._cluster = name, cluster
        self._printed = cluster.client_lists / f"{name}.jsonl"
        self._printed.touch()
        self._process = cluster.processes.start(command, self._printed, cluster.output / f"{name}.err", commands=True)
        self._read, self._events = 0, list[dict[str, Any]]()

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        """What it has printed so far."""
        with self._printed.open("rb") as lines:
            lines.seek(self._read)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                self._events.append(json.loads(line))
        return [one for one in self._events if not kind or one["event"] == kind]

    def wait(self, kind: str, count: int = 1, seconds: float = 60) -> list[dict[str, Any]]:
        """Until it has printed so many events of a kind."""

        def look() -> list[dict[str, Any]] | None:
            found = self.events(kind)
            if len(found) < count and self._process.poll() is not None:
                errors = self._cluster.output / f"{self.name}.err"
                raise RunError(f"client {self.name} ended: {errors.read_text('utf-8', 'replace')[-2000:]}")
            return found if len(found) >= count else None

        return wait_for(f"client {self.name}: {count} x {kind}", look, seconds)

    def tell(self, command: str) -> None:
        """Write a command; the client may be frozen, and reads it later."""
        assert self._process.stdin is not None  # noqa: S101 - it was started with a pipe
        self._process.stdin.write(f"{command}\n".encode())
        self._process.stdin.flush()

    def ask(self, command: str, seconds: float = 60) -> dict[str, Any]:
        """Tell it a command and wait for its result: `done` or `refused`."""
        before = len(self.events("done")) + len(self.events("refused"))
        self.tell(command)

        def answered() -> dict[str, Any] | None:
            results = [one for one in self.events() if one["event"] in ("done", "refused")]
            return results[-1] if len(results) > before else None

        return wait_for(f"client {self.name}: {command}", answered, seconds)

    def send(self, count: int) -> None:
        """A producer sends so many batches, and has an answer or a failure for each record."""

        def answered() -> int:
            return len({one["batch"] for one in (*self.events("acknowledged"), *self.events("failed"))})

        before = answered()
        self.tell(f"send {count}")
        wait_for(f"client {self.name} sends {count}", lambda: answered() >= before + count, 90)

    def send_until_acknowledged(self) -> None:
        """A producer sends single records until one is acknowledged: then it knows the new leader."""
        before = len(self.events("acknowledged"))

        def reached() -> bool:
            self.send(1)
            return len(self.events("acknowledged")) > before

        wait_for(f"client {self.name} reaches a leader", reached, 60, pause=0.5)

    def freeze(self) -> None:
        self._cluster.note(f"client {self.name} is frozen (SIGSTOP)")
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._cluster.note(f"client {self.name} goes on (SIGCONT)")
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        if self._process.stdin is not None:
            close(self._process.stdin)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait_until_ended(self, seconds: float = 60) -> None:
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise RunError(f"client {self.name} did not end within {seconds:.0f} s") from None
        if code:
            errors = self._cluster.output / f"{self.name}.err"
            raise RunError(f"client {self.name} failed: {errors.read_text('utf-8', 'replace')[-2000:]}")


class Cluster:
    """The nodes and clients of one run, below one folder:

    nodes: logs and data of each node, and the clients' logs: what is collected and audited.
    clients: the clients' lists of the answers that they got, and the time line of the run. The audit does not see it.

    newer: the release that a scenario upgrades to. random, seconds: the choices of a scenario that makes any, and for how long it goes on.
    """

    def __init__(
        self,
        processes: Processes,
        programs: Programs,
        mode: str,
        folder: Path,
        layout: Layout,
        seed: int,
        seconds: float,
        settings: Mapping[str, object] | None = None,
        newer: Programs | None = None,
    ) -> None:
        self.processes, self.programs, self.mode, self.folder, self.layout = processes, programs, mode, folder, layout
        self.newer = newer
        self.random, self.seconds = Random(seed), seconds  # noqa: S311 - no secret
        self.output, self.client_lists = folder / "output", folder / "clients"
        self._client_logs = folder / "nodes" / "clients"
        for one in (self.output, self.client_lists, self._client_logs):
            one.mkdir(parents=True)
        self._started = monotonic()
        self._cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")  # KRaft's
        self.clients: list[Client] = []
        self._administrator: Client | None = None
        self._zookeeper: subprocess.Popen[bytes] | None = None
        combined = layout.combined and mode == KRAFT
        has_controllers = mode == KRAFT or layout.migrates
        self.controller_ids = () if not has_controllers else layout.brokers if combined else layout.controllers
        ids = (*layout.brokers, *(one for one in self.controller_ids if one not in layout.brokers))
        ports = free_ports(len(ids) + len(self.controller_ids) + 1)
        self._broker_ports = dict(zip(layout.brokers, ports, strict=False))
        controller_ports = dict(zip(self.controller_ids, ports[len(layout.brokers) :], strict=False))
        self._zookeeper_port = ports[-1]
        behind = [self._zookeeper_port] if mode == ZOOKEEPER else [*controller_ports.values()]
        linked = layout.brokers if layout.linked else ()
        self._links = {one: {port: self.processes.link(port) for port in behind} for one in linked}
        self.settings = NodeSettings(
            release=self.release,
            factor=min(3, len(layout.brokers)),
            folder=folder,
            of_scenario=settings or {},
            broker_ports=self._broker_ports,
            controller_ports=controller_ports,
            zookeeper_port=self._zookeeper_port,
            links=self._links,
        )
        of_mode = self.settings.with_zookeeper if mode == ZOOKEEPER else self.settings.with_kraft
        brokers = {one: Node(self, one, self._roles(one), of_mode(one)) for one in layout.brokers}
        others = [one for one in self.controller_ids if one not in brokers]
        self.nodes = brokers | {one: Node(self, one, self._roles(one), self.settings.with_kraft(one)) for one in others}

    @property
    def release(self) -> Release:
        """The release that the cluster starts with, and that of its clients."""
        return self.programs.release

    def note(self, text: str) -> None:
        """A line of the run's time line."""
        with (self.client_lists / "time-line.txt").open("a", encoding="utf-8") as lines:
            lines.write(f"{strftime('%H:%M:%S')} {monotonic() - self._started:6.1f} s  {text}\n")

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._broker_ports.values())

    def _roles(self, number: int) -> tuple[str, ...]:
        broker = ("broker",) if number in self.layout.brokers else ()
        return (*broker, "controller") if number in self.controller_ids else broker

    def cut_off(self, broker: int) -> None:
        """The broker reaches neither controllers nor ZooKeeper. Other brokers and clients still reach it."""
        self.note(f"broker {broker} is cut off from the controller")
        for link in self._links[broker].values():
            link.cut()

    def reconnect(self, broker: int) -> None:
        self.note(f"broker {broker} reaches the controller again")
        for link in self._links[broker].values():
            link.restore()

    def start(self) -> None:
        self.note(f"Kafka {self.release.version}, {self.mode}")
        if self.mode == ZOOKEEPER:
            self._start_zookeeper()
        else:
            self.format(self.nodes.values(), self._cluster_id)
        of_mode = self.nodes.values() if self.mode == KRAFT else [self.nodes[one] for one in self.layout.brokers]
        for node in of_mode:
            node.start(wait=False)
        for node in of_mode:
            node.wait_until_started()
        self._administrator = self._tool("administrator", "Administrator", [], {"default.api.timeout.ms": 10000})
        self._administrator.wait("started")
        self.wait_for_brokers(self.layout.brokers)

    def break_disk(self, broker: int, disk: int) -> list[str]:
        """A log directory of a running broker can no longer be written: a file is in its place. Returns its replicas (orders-0)."""
        self.note(f"disk {disk} of broker {broker} breaks")
        directory = self.nodes[broker].disks[disk]
        broken = directory.rename(self.folder / f"broken-{directory.parent.name}-{directory.name}")
        directory.touch()
        return sorted(one.name for one in broken.iterdir() if REPLICA.fullmatch(one.name))

    def replace_disk(self, broker: int, disk: int = 0) -> None:
        """A broker that does not run gets an empty log directory in place of one that it had."""
        self.note(f"broker {broker} gets an empty disk {disk}")
        directory = self.nodes[broker].disks[disk]
        if directory.is_dir():
            rmtree(directory)
        else:
            directory.unlink()
        directory.mkdir()
        if self.mode == KRAFT:
            self.format([self.nodes[broker]], self._cluster_id, again=True)

    def format(self, nodes: Iterable[Node], cluster_id: str, *, again: bool = False) -> None:
        """Give KRaft nodes their cluster id; side by side, because each takes the start of a JVM. again: some directories have it."""
        tool: list[str | Path] = [
            *JAVA,
            CLIENT_HEAP,
            "-cp",
            self.programs.nodes,
            "kafka.tools.StorageTool",
            "format",
            f"--cluster-id={cluster_id}",
            *(["--ignore-formatted"] if again else []),
            "--config",
        ]
        formatted = {
            node.name: self.processes.start([*tool, node.properties], self.output / f"{node.name}.format.out")
            for node in nodes
        }
        for name, process in formatted.items():
            if process.wait(60):
                raise RunError(
                    f"{name} can't be formatted: {(self.output / f'{name}.format.out').read_text('utf-8')[-2000:]}"
                )

    def _start_zookeeper(self) -> None:
        folder = self.folder / "zookeeper"
        folder.mkdir()
        properties = folder / "zookeeper.properties"
        properties.write_text(
            f"dataDir={folder / 'data'}\nclientPort={self._zookeeper_port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n"
            "admin.enableServer=false\ntickTime=1000\nminSessionTimeout=2000\nmaxSessionTimeout=60000\n",
            "utf-8",
        )
        log = folder / "zookeeper.log"
        options = client_options(self.release, folder, log, debug=())
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command: list[str | Path] = [*JAVA, "-Xmx128m", *options, "-cp", self.programs.nodes, main, properties]
        self._zookeeper = self.processes.start(command, self.output / "zookeeper.out")
        wait_for("ZooKeeper starts", lambda: log.exists() and "binding to port" in log.read_text("utf-8"))

    def _client(self, name: str, main: str, arguments: Sequence[str], settings: Mapping[str, object]) -> Client:
        """A client of the cluster's release."""
        return self._program(name, self.release, self.programs.clients, [main, *arguments], settings)

    def _tool(self, name: str, main: str, arguments: Sequence[str], settings: Mapping[str, object]) -> Client:
        """A client whose release may be newer."""
        return self._program(name, self.release.of_tools, self.programs.tools, [main, *arguments], settings)

    def _program(
        self, name: str, release: Release, class_path: str, command: Sequence[str], settings: Mapping[str, object]
    ) -> Client:
        all_settings = {"bootstrap.servers": self.bootstrap, "client.id": name, **CLIENT_SETTINGS, **settings}
        options = client_options(release, self.output, self._client_logs / f"{name}.log")
        client = Client(
            self,
            name,
            [
                *JAVA, CLIENT_HEAP, *options, "-cp", class_path, *command,
                *(f"{key}={value}" for key, value in all_settings.items()),
            ],
        )  # fmt: skip
        self.clients.append(client)
        return client

    def producer(self, name: str, partitions: Sequence[str], acks: str, pause_ms: int = 20, records: int = 1) -> Client:
        """A client that sends batches of so many records, one at a time, after its commands `run` or `send N`."""
        self.note(f"producer {name} of {', '.join(partitions)} with acks={acks}, batches of {records}")
        settings = {**PRODUCER_SETTINGS, "acks": acks}
        if records > 1:
            settings["linger.ms"] = LINGER_MS
        client = self._client(name, "Producer", [",".join(partitions), str(pause_ms), str(records)], settings)
        client.wait("started")
        return client

    def transactions(self, name: str, transactional_id: str) -> Client:
        """A transactional producer that obeys commands."""
        self.note(f"producer {name} of transactional id {transactional_id}")
        settings = {"transactional.id": transactional_id, "transaction.timeout.ms": 60000, "max.block.ms": 20000}
        client = self._client(name, "Transactions", [], settings)
        client.wait("started")
        return client

    def consumer(self, name: str, topics: Sequence[str], group: str | None = None, **settings: object) -> Client:
        """A consumer of all partitions, or a member of a group. A setting's dots are written as underscores."""
        self.note(f"consumer {name} of {', '.join(topics)}" + (f" in group {group}" if group else ""))
        named = {key.replace("_", "."): value for key, value in settings.items()}
        if group:
            named["group.id"] = group
        fixed = {"auto.offset.reset": "earliest", "enable.auto.commit": "false", "fetch.max.wait.ms": 200}
        client = self._client(name, "Consumer", ["group" if group else "follow", ",".join(topics)], {**fixed, **named})
        client.wait("started")
        return client

    def share_member(self, name: str, topics: Sequence[str], group: str) -> Client:
        """A member of a share group, which acknowledges records on command."""
        self.note(f"member {name} of share group {group} of {', '.join(topics)}")
        settings = {
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "fetch.max.wait.ms": 200,
            "request.timeout.ms": 60000,  # a frozen member that gives up a request afterwards loses its connection, and its session
        }
        client = self._tool(name, "ShareMember", [",".join(topics)], settings)
        client.wait("started")
        return client

    def stale_share_requests(
        self, name: str, coordinator: int, leader: int, group: str, topic: str, partition: int, leader_epoch: int
    ) -> Client:
        """Ask a share coordinator in older epochs, and a leader in used epochs of a share session; returns when all is answered."""
        self.note(
            f"{name} asks coordinator {coordinator} about {topic}-{partition} in leader epochs up to {leader_epoch}, and leader {leader}"
        )
        topic_id = str(self.admin(f"describe {topic}")["topic_id"])
        ports = [str(self._broker_ports[coordinator]), str(self._broker_ports[leader])]
        client = self._tool(
            name, "StaleShareRequests", [*ports, name, group, topic_id, str(partition), str(leader_epoch)], {}
        )
        client.wait_until_ended()
        return client

    def stale_requests(self, name: str, broker: int, topic: str, partition: int, leader_epoch: int) -> Client:
        """Ask a leader in the epoch before this one, in this one, and in the next; returns when all is answered."""
        self.note(f"{name} asks broker {broker} about {topic}-{partition} in leader epochs around {leader_epoch}")
        arguments = [str(self._broker_ports[broker]), name, topic, str(partition), str(leader_epoch)]
        client = self._tool(name, "StaleRequests", arguments, {})
        client.wait_until_ended()
        return client

    def raw_requests(self, name: str, controller: int) -> Client:
        """A client that sends a controller any request, and reads the metadata log of its only voter."""
        self.note(f"{name} speaks to controller {controller}")
        node = f"{controller}@{self.settings.controller_ports[controller]}"
        log = self.nodes[controller].folder / "data" / "__cluster_metadata-0" / f"{0:020}.log"
        client = self._tool(name, "RawRequests", [str(RAW_FROM), node, str(log)], {})
        client.wait("started")
        return client

    def control_requests(self, name: str) -> Client:
        """A client that sends brokers any request, and reads what ZooKeeper has."""
        self.note(f"{name} speaks to the brokers")
        nodes = ",".join(f"{one}@{port}" for one, port in self._broker_ports.items())
        client = self._tool(name, "ControlRequests", [str(RAW_FROM), nodes, str(self._zookeeper_port)], {})
        client.wait("started")
        return client

    def admin(self, command: str, *, may_fail: bool = False) -> dict[str, Any]:
        """A command of lab/java/Administrator.java, with its answer."""
        administrator = self._administrator
        assert administrator is not None  # noqa: S101 - set by start()
        before = len(administrator.events("answer"))
        administrator.tell(command)
        answer = administrator.wait("answer", before + 1, 60)[-1]
        if command.split()[0] not in ("describe", "cluster", "reassigning", "quorum"):
            self.note(f"{command}: {answer.get('error', 'done')}")
        if "error" in answer and not may_fail:
            raise RunError(f"{command}: {answer['error']}: {answer.get('message')}")
        return answer

    def create(self, topic: str, replicas: str, **configs: object) -> None:
        """Create a topic; replicas of each partition as 1,2/2,3.

        Asked again while a topic of that name is being deleted, and if no answer came in time: a broker that has forwarded a request
        to a controller that froze waits for its answer for half a minute, before it turns to the next controller.
        """
        settings = "".join(f" {name.replace('_', '.')}={value}" for name, value in configs.items())

        def is_led() -> bool:
            answer = self.admin(f"describe {topic}", may_fail=True)
            return "error" not in answer and all(one["leader"] >= 0 for one in answer["partitions"])

        def is_created() -> bool:
            answer = self.admin(f"create {topic} {replicas}{settings}", may_fail=True)
            if "error" in answer and answer["error"] not in ("TopicExistsException", "TimeoutException"):
                raise RunError(f"{topic} can't be created: {answer}")
            # The client asks again by itself if an answer is lost, and then gets the error that its own topic exists.
            return "error" not in answer or is_led()

        wait_for(f"{topic} is created", is_created, 60, pause=1)
        wait_for(f"{topic} has leaders", is_led, 30)

    def create_spread(self, topic: str, partitions: int, **configs: object) -> None:
        """Create a topic with a replica of each partition on each broker; each broker is the preferred leader of as many."""
        brokers = self.layout.brokers
        order = [[brokers[(first + at) % len(brokers)] for at in range(len(brokers))] for first in range(partitions)]
        self.create(topic, "/".join(",".join(map(str, replicas)) for replicas in order), **configs)

    def delete(self, topic: str) -> None:
        """Delete a topic. Asked again if that fails: where the controller changes, KRaft up to 3.4 answers UnknownServerException."""
        errors: list[str] = []

        def is_deleted() -> bool:
            error = self.admin(f"delete {topic}", may_fail=True).get("error")
            if error is not None:
                errors.append(error)
            return error is None or (error == "UnknownTopicOrPartitionException" and len(errors) > 1)

        wait_for(f"{topic} is deleted", is_deleted, 60, pause=1)

    def partition(self, topic: str, partition: int = 0) -> dict[str, Any]:
        """Leader (-1 if it has none), isr and replicas, as a broker knows them."""
        found: dict[str, Any] = self.admin(f"describe {topic}")["partitions"][partition]
        return found

    def active_controller(self) -> int | None:
        """The leader of the quorum, or the controller of a cluster with ZooKeeper; null if none is known."""
        command, field = ("quorum", "leader") if self.mode == KRAFT else ("cluster", "controller")
        active = self.admin(command, may_fail=True).get(field)
        return None if active in (None, -1) else int(active)

    def wait_for_brokers(self, ids: Sequence[int]) -> None:
        """Until the controller takes exactly these brokers for alive."""
        wait_for(
            f"brokers {list(ids)} are alive",
            lambda: set(self.admin("cluster", may_fail=True).get("nodes", ())) == set(ids),
        )

    def wait_until_in_sync(self, topics: Iterable[str], seconds: float = 60) -> None:
        """Until all brokers are alive, and each ISR of these topics has all of its partition's replicas."""

        def is_in_sync(topic: str) -> bool:
            answer = self.admin(f"describe {topic}", may_fail=True)
            return "error" not in answer and all(
                set(one["isr"]) == set(one["replicas"]) for one in answer["partitions"]
            )

        self.wait_for_brokers(self.layout.brokers)
        for topic in topics:
            wait_for(f"all replicas of {topic} are in sync", partial(is_in_sync, topic), seconds)

    def wait_for_isr(self, topic: str, isr: Sequence[int], partition: int = 0) -> None:
        def reached() -> bool:
            answer = self.admin(f"describe {topic}", may_fail=True)
            return "error" not in answer and set(answer["partitions"][partition]["isr"]) == set(isr)

        wait_for(f"ISR of {topic}-{partition} is {list(isr)}", reached, 60)

    def wait_for_leader(self, topic: str, other_than: int, partition: int = 0, seconds: float = 40) -> int:
        """Until another broker leads; returns its id."""

        def led() -> int | None:
            answer = self.admin(f"describe {topic}", may_fail=True)
            leader = -1 if "error" in answer else int(answer["partitions"][partition]["leader"])
            return leader if leader not in (-1, other_than) else None

        leader = wait_for(f"{topic}-{partition} has a leader other than {other_than}", led, seconds)
        self.note(f"{topic}-{partition} is led by {leader}")
        return leader

    def wait_for_unclean_leader(self, topic: str, other_than: int, seconds: float) -> int:
        """Until another broker leads partition 0. Asks for an unclean election if the controller has not elected one by then.

        Whether it does so by itself depends on the release.
        """
        try:
            return self.wait_for_leader(topic, other_than=other_than, seconds=seconds)
        except RunError:
            self.admin(f"elect unclean {topic} 0")
            return self.wait_for_leader(topic, other_than=other_than)

    def begun_epochs(self, topic: str, other_than: int, partition: int = 0) -> int:
        """How many leader epochs other brokers began, by their logs: a broker that is cut off answers clients with what it knows."""
        begins = re.compile(rf"(?<!Follower ){topic}-{partition} (?:with topic id \S+ )?starts at leader epoch", re.I)
        return sum(
            self.nodes[one].logged(begins, logs)
            for one in self.layout.brokers
            if one != other_than
            for logs in ("server.log*", "state-change.log*")
        )

    def read_back(self, topics: Sequence[str]) -> None:
        """Read all that the partitions hold at the end: what is missing from it was lost."""
        reader = self._client("reader", "Consumer", ["read", ",".join(topics)], {"auto.offset.reset": "earliest"})
        reader.wait_until_ended(90)
        self.note("all partitions were read back")

    def restart(self, number: int, settings: Mapping[str, object], programs: Programs | None = None) -> None:
        """A controlled restart with other settings, and with these programs instead of the node's own."""
        node = self.nodes[number]
        node.stop()
        node.programs = programs or node.programs
        node.configure(settings)
        node.start()

    def stop(self) -> None:
        """End the clients, then all nodes in order."""
        for client in self.clients:
            client.stop()
        for ids in (self.layout.brokers, self.controller_ids):
            running = [self.nodes[one] for one in ids if self.nodes[one].is_running()]
            for node in running:
                node.terminate()
            for node in running:
                try:
                    node.wait_until_stopped(20)
                except RunError:
                    node.kill()  # the last broker has no one to hand its partitions to, and waits for it
        if self._zookeeper is not None:
            self._zookeeper.terminate()
