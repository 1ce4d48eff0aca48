"""What runs of a release: its brokers and controllers, the clients of lab/java, and the class paths of both."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from lab.processes import RunError
from lab.releases import SHARE_GROUPS_FROM, WITHOUT_ZOOKEEPER_FROM, Release, jars_of

JAVA_SOURCES: Final = Path(__file__).parent / "java"


@dataclass(frozen=True)
class Programs:
    """The class paths of a release.

    nodes: brokers and controllers. clients: producers and consumers, with the release's own jars. tools: the administration and single
    requests, with the jars of `Release.of_tools`.
    """

    release: Release
    nodes: str
    clients: str
    tools: str

    def with_jars(self, jars: Sequence[Path]) -> Programs:
        """The same with further jars for brokers and controllers."""
        return replace(self, nodes=os.pathsep.join([self.nodes, *map(str, jars)]))


def programs_of(release: Release, cache: Path, url: str, resolver: str) -> Programs:
    """Fetch a release's jars, and compile the clients. Raises RunError and ResolutionError."""
    jars = jars_of(release, cache, url, resolver)
    sources = sorted(JAVA_SOURCES.glob("*.java"))
    clients = _compiled(release, jars, sources, cache / "classes")
    of_tools = release.of_tools
    jars_of_tools = jars if of_tools == release else jars_of(of_tools, cache, url, resolver)
    sources += sorted((JAVA_SOURCES / "tools").glob("*.java"))
    if of_tools.number < WITHOUT_ZOOKEEPER_FROM:
        sources += sorted((JAVA_SOURCES / "controllers").glob("*.java"))
    if of_tools.number >= SHARE_GROUPS_FROM:
        sources += sorted((JAVA_SOURCES / "share_groups").glob("*.java"))
    tools = _compiled(of_tools, jars_of_tools, sources, cache / "classes")
    return Programs(release, _joined(jars), _joined([clients, *jars]), _joined([tools, *jars_of_tools]))


def _joined(paths: Sequence[Path]) -> str:
    return os.pathsep.join(map(str, paths))


def _compiled(release: Release, jars: Sequence[Path], sources: Sequence[Path], folder: Path) -> Path:
    """The sources' classes, compiled against this release, in a folder of the given one for each state of the sources.

    It is complete if it exists: labs that run at once may share it.
    """
    state = sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    classes = folder / f"{release.version}-{state}"
    if classes.is_dir():
        return classes
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as compiling:
        target = Path(compiling) / classes.name
        try:
            subprocess.run(
                ["javac", "-d", target, "-cp", _joined(jars), *sources], check=True, capture_output=True, text=True
            )
        except FileNotFoundError:
            raise RunError("javac is not on the PATH: install a JDK, version 17 or newer") from None
        except subprocess.CalledProcessError as e:
            raise RunError(f"the clients do not compile against Kafka {release.version}: {e.stderr}") from None
        with suppress(OSError):  # another lab was faster
            target.rename(classes)
    return classes
