"""The Kafka releases that the lab lists, and the jars of any release from OLDEST on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.maven import Artifact, Repository, jars

KRAFT: Final = "kraft"
ZOOKEEPER: Final = "zookeeper"
OLDEST: Final = (2, 3)  # its clients state leader epochs
KRAFT_FROM: Final = (3, 3)  # ready for production
LOG4J2_FROM: Final = (4, 0)
WITHOUT_ZOOKEEPER_FROM: Final = (4, 0)
# KIP-932: a preview there, complete from 4.2 on; 4.0 has another, incompatible protocol
SHARE_GROUPS_FROM: Final = (4, 1)
LOG4J2: Final = "2.24.3"  # with 4.0, whose POM does not name it
RELOAD4J_BINDING: Final = Artifact("org.slf4j", "slf4j-reload4j", "1.7.36")
SCALA_2_13_FROM: Final = (2, 4)
# Older ones do not connect to a server's address on Java 14 and newer.
ZOOKEEPER_OF_OLD_RELEASES: Final = Artifact("org.apache.zookeeper", "zookeeper", "3.5.9")
NEWER_ZOOKEEPER_FROM: Final = (2, 8)
REPLACED_BY_RELOAD4J: Final = ("log4j-1.", "slf4j-log4j12-")
DISKS_FROM: Final = (3, 7)  # KIP-858: brokers with several log directories, in KRaft
READS_FROM_FOLLOWERS_FROM: Final = (2, 4)  # KIP-392
TOOLS_FROM: Final = (3, 3)  # the first whose administration describes a quorum
REASSIGNMENTS_FROM: Final = (2, 4)  # KIP-455: by request; before, by a node of ZooKeeper
EPOCHS_OF_SESSIONS_FROM: Final = (2, 5)
ISRS_ASKED_FOR_FROM: Final = (2, 7)  # KIP-497
MEMBERS_OF_ISRS_CHECKED_FROM: Final = (3, 3)  # KIP-841


@dataclass(frozen=True)
class Release:
    """A release of Kafka."""

    version: str

    @property
    def number(self) -> tuple[int, int]:
        """Major and minor version."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)

    @property
    def modes(self) -> tuple[str, ...]:
        """How its clusters keep their metadata."""
        kraft = (KRAFT,) if self.number >= KRAFT_FROM else ()
        return kraft if self.number >= WITHOUT_ZOOKEEPER_FROM else (*kraft, ZOOKEEPER)

    @property
    def has_log4j2(self) -> bool:
        return self.number >= LOG4J2_FROM

    @property
    def reported_defects(self) -> frozenset[str]:
        """Rules that report what this release does wrong on a healthy cluster.

        Up to 2.4 an incremental fetch session does not compare leader epochs (KAFKA-9338). From 2.7 to 3.2 a controller accepts an
        ISR with a broker that it is shutting down (KAFKA-14140).
        """
        if self.number < EPOCHS_OF_SESSIONS_FROM:
            return frozenset({"FF-01", "FF-02"})
        if ISRS_ASKED_FOR_FROM <= self.number < MEMBERS_OF_ISRS_CHECKED_FROM:
            return frozenset({"IS-05"})
        return frozenset()

    @property
    def of_tools(self) -> Release:
        """The release of the clients that administrate and send single requests: its own, or a newer one if it lacks the classes."""
        return self if self.number >= TOOLS_FROM else TOOLS_OF_OLD_RELEASES


TOOLS_OF_OLD_RELEASES: Final = Release("3.9.1")
LISTED: Final = tuple(map(Release, ("2.3.1", "2.8.2", "3.3.2", "3.9.1", "4.0.1", "4.1.0", "4.4.0")))


def newer_than(release: Release, mode: str) -> Release | None:
    """The next listed release that has this mode, if there is one."""
    return next((one for one in LISTED if one.number > release.number and mode in one.modes), None)


def jars_of(release: Release, cache: Path, url: str, resolver: str) -> list[Path]:
    """The jars of brokers and clients. They are resolved once; each use compares them with their checksums."""
    repository = Repository(cache / "repository", url)
    listed = cache / "class-paths" / f"{release.version}.txt"
    if listed.exists():
        known = [repository.folder / path for path in listed.read_text("utf-8").splitlines()]
        if all(jar.exists() for jar in known):
            for jar in known:
                repository.verify(jar)
            return known
    found = _resolved(release, repository, resolver)
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.write_text("".join(f"{jar.relative_to(repository.folder)}\n" for jar in found), "utf-8")
    return found


def test_jars(release: Release, names: Sequence[str], cache: Path, url: str) -> list[Path]:
    """Jars with the classes that Kafka tests itself with, without their dependencies."""
    repository = Repository(cache / "repository", url)
    return [repository.file(Artifact("org.apache.kafka", name, release.version, "test"), "jar") for name in names]


def _resolved(release: Release, repository: Repository, resolver: str) -> list[Path]:
    """Kafka, and what its archive adds to its POM: a binding of SLF4J to log4j, and up to 4.0 log4j 2 with its reader of YAML."""
    scala = "2.13" if release.number >= SCALA_2_13_FROM else "2.12"
    kafka = Artifact("org.apache.kafka", f"kafka_{scala}", release.version)
    if not release.has_log4j2:
        zookeeper = [ZOOKEEPER_OF_OLD_RELEASES] if release.number < NEWER_ZOOKEEPER_FROM else []
        found = jars(repository, [kafka, RELOAD4J_BINDING, *zookeeper], resolver)
        return [jar for jar in found if not jar.name.startswith(REPLACED_BY_RELOAD4J)]
    versions = {jar.parent.parent.name: jar.parent.name for jar in jars(repository, [kafka], resolver)}
    binding = Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", versions.get("log4j-core", LOG4J2))
    jackson = Artifact("com.fasterxml.jackson.dataformat", "jackson-dataformat-yaml", versions["jackson-databind"])
    return jars(repository, [kafka, binding, jackson], resolver)
