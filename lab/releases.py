"""The Kafka releases that the lab lists, and the class path of any release from OLDEST on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.maven import Artifact, Repository, jars

KRAFT: Final = "kraft"
ZOOKEEPER: Final = "zookeeper"
OLDEST: Final = (3, 3)  # KRaft is ready for production, and admin clients describe the quorum
LOG4J2_FROM: Final = (4, 0)
WITHOUT_ZOOKEEPER_FROM: Final = (4, 0)
SHARE_GROUPS_FROM: Final = (
    4,
    1,
)  # KIP-932: a preview there, complete from 4.2 on; 4.0 has another, incompatible protocol
LOG4J2: Final = "2.24.3"  # with 4.0, whose POM does not name it
RELOAD4J_BINDING: Final = Artifact("org.slf4j", "slf4j-reload4j", "1.7.36")


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
        return (KRAFT,) if self.number >= WITHOUT_ZOOKEEPER_FROM else (KRAFT, ZOOKEEPER)

    @property
    def has_log4j2(self) -> bool:
        return self.number >= LOG4J2_FROM


LISTED: Final = tuple(map(Release, ("3.3.2", "3.9.1", "4.0.1", "4.1.0", "4.4.0")))


def class_path(release: Release, cache: Path, url: str, resolver: str) -> list[Path]:
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
    kafka = Artifact("org.apache.kafka", "kafka_2.13", release.version)
    if not release.has_log4j2:
        return jars(repository, [kafka, RELOAD4J_BINDING], resolver)
    versions = {jar.parent.parent.name: jar.parent.name for jar in jars(repository, [kafka], resolver)}
    binding = Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", versions.get("log4j-core", LOG4J2))
    jackson = Artifact("com.fasterxml.jackson.dataformat", "jackson-dataformat-yaml", versions["jackson-databind"])
    return jars(repository, [kafka, binding, jackson], resolver)
