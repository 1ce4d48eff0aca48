"""The Kafka releases that the lab lists, and the class path of any release from OLDEST on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.maven import Artifact, Repository, ResolutionError, jars

KRAFT: Final = "kraft"
ZOOKEEPER: Final = "zookeeper"
OLDEST: Final = (3, 3)  # KRaft is ready for production, and admin clients describe the quorum
LOG4J2_FROM: Final = (4, 0)
WITHOUT_ZOOKEEPER_FROM: Final = (4, 0)
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


def _resolved(release: Release, repository: Repository, resolver: str) -> list[Path]:
    """Kafka, and a binding of SLF4J to log4j, which Kafka's POM leaves to its archive."""
    kafka = Artifact("org.apache.kafka", "kafka_2.13", release.version)
    binding = RELOAD4J_BINDING
    if release.has_log4j2:
        versions = [
            jar.parent.name for jar in jars(repository, [kafka], resolver) if jar.name.startswith("log4j-core-")
        ]
        if len(versions) != 1:
            raise ResolutionError(f"{kafka} depends on {len(versions)} versions of log4j-core, where one is expected")
        binding = Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", versions[0])
    return jars(repository, [kafka, binding], resolver)
