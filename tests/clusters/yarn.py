"""YARN and HDFS of this machine: Hadoop's own MiniYARNCluster and MiniDFSCluster, in one JVM, of jars from Maven Central."""

from __future__ import annotations

import shutil
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tests.clusters.packed import ROOT
from tests.clusters.standalone import QUIETLY, SPARK_HOME

CENTRAL: Final = "https://repo1.maven.org/maven2"
CACHE: Final = ROOT / ".venv" / "hadoop"
# Spark has Hadoop's client; this is the rest, and what the servers of the test jars load: path -> SHA-256.
JARS: Final = {
    "org/apache/hadoop/hadoop-client-minicluster/3.5.0": "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c",
    "org/junit/jupiter/junit-jupiter-api/5.13.4": "d1bb81abfd9e03418306b4e6a3390c8db52c58372e749c2980ac29f0c08278f1",
    "org/junit/platform/junit-platform-commons/1.13.4": "1c25ca641ebaae44ff3ad21ca1b2ef68d0dd84bfeb07c4805ba7840899b77408",
    "org/opentest4j/opentest4j/1.3.0": "48e2df636cab6563ced64dcdff8abb2355627cb236ef0bf37598682ddf742f1b",
    "org/mockito/mockito-core/4.11.0": "4b909690cab288c761eb94c0bf0e814496cf3921d8affac84cd87774530351e5",
    "org/bouncycastle/bcprov-jdk18on/1.82": "14cde2fdfaa8890480a8e5b67aceef0c90f96682c1e23c133bafdc9e0b3255ce",
    "org/bouncycastle/bcpkix-jdk18on/1.82": "bdc723e20834832ac6af136cb5b5ff05e43b71d4fa151cc6510d9212ee086e63",
    "org/bouncycastle/bcutil-jdk18on/1.82": "4420691958ad1c0ba275a6d6d8a6317adbdbdc9277055b6a72aa89c88cda8c7d",
}
SETTINGS: Final = {
    "yarn.nodemanager.resource.memory-mb": "6144",
    "yarn.nodemanager.resource.cpu-vcores": "8",
    "yarn.scheduler.minimum-allocation-mb": "128",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.nodemanager.vmem-check-enabled": "false",  # a JVM reserves far more than it uses
    "yarn.nodemanager.disk-health-checker.enable": "false",  # it takes nodes away whose disk is 90 % full
}


@dataclass(frozen=True)
class Yarn:
    """conf: a Hadoop configuration directory. hdfs, webhdfs: the root of the file system by either protocol."""

    conf: Path
    hdfs: str
    webhdfs: str
    _java: Any
    _files: Any

    def put(self, source: Path, target: str) -> None:
        """Copy a local file or directory into HDFS."""
        path = self._java.org.apache.hadoop.fs.Path
        self._files.copyFromLocalFile(path(str(source)), path(target))


def jars() -> list[Path]:
    """The jars, fetched once. Raises ValueError if one is not the expected one."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(_jar, JARS))


def _jar(path: str) -> Path:
    name = "-".join(path.rsplit("/", 2)[1:]) + ".jar"
    jar = CACHE / name
    if not jar.exists():
        with urllib.request.urlopen(f"{CENTRAL}/{path}/{name}", timeout=300) as answer:  # noqa: S310  https
            content = answer.read()
        if sha256(content).hexdigest() != JARS[path]:
            raise ValueError(f"{CENTRAL}/{path}/{name} is another file than it was")
        partial = jar.with_suffix(".part")
        partial.write_bytes(content)
        partial.rename(jar)
    return jar


@contextmanager
def yarn(folder: Path) -> Iterator[Yarn]:
    """A resource manager, a node manager, a name node and a data node, while they are needed."""
    classpath = ":".join([*map(str, jars()), f"{SPARK_HOME}/jars/*"])
    log = (folder / "hadoop.log").open("w")
    options = ["-Xmx512m", *QUIETLY.split(), f"-Dtest.build.data={folder}/data", f"-Duser.dir={folder}"]
    port, process = launch_gateway(
        classpath=classpath,
        javaopts=options,
        die_on_exit=True,
        redirect_stdout=log,
        redirect_stderr=log,
        return_proc=True,
    )
    try:
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
        java = gateway.jvm
        settings = java.org.apache.hadoop.yarn.conf.YarnConfiguration()
        for key, value in SETTINGS.items():
            settings.set(key, value)
        hdfs = java.org.apache.hadoop.hdfs.MiniDFSCluster.Builder(settings).numDataNodes(1).build()
        cluster = java.org.apache.hadoop.yarn.server.MiniYARNCluster("epochaudit", 1, 1, 1)
        cluster.init(settings)
        cluster.start()
        # the cluster's own setting names a class of the test jars, which clients don't have
        cluster.getConfig().set("net.topology.node.switch.mapping.impl", "org.apache.hadoop.net.ScriptBasedMapping")
        conf = folder / "conf"
        conf.mkdir()
        file = java.java.io.FileOutputStream(str(conf / "core-site.xml"))
        cluster.getConfig().writeXml(file)
        file.close()
        shutil.copy(conf / "core-site.xml", conf / "yarn-site.xml")
        files = hdfs.getFileSystem()
        by_http = hdfs.getNameNode().getHttpAddress()
        yield Yarn(conf, files.getUri().toString(), f"webhdfs://localhost:{by_http.getPort()}", java, files)
        gateway.shutdown()
    finally:
        process.kill()
        log.close()
