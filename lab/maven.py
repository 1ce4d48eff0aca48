"""Jars of a Kafka release from Maven Central, with verified checksums.

The cache has Maven's own layout, so Maven can fill it, if it is installed. Without it, `Resolver` reads the POMs itself.
Both give the same class path for the artifacts that the lab needs; tests/lab/test_maven.py checks the rules of Maven that this takes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

CENTRAL: Final = "https://repo1.maven.org/maven2"
_PROPERTY: Final = re.compile(r"\$\{([^}]+)\}")
_RUNTIME: Final = ("compile", "runtime")
_PARENTS: Final = 20  # a chain of POMs that is longer is a loop


class ResolutionError(Exception):
    """An artifact can't be had, or its checksum is wrong. The message names it."""


@dataclass(frozen=True)
class Artifact:
    """What Maven calls coordinates."""

    group: str
    name: str
    version: str
    classifier: str = ""

    @property
    def folder(self) -> str:
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}"

    def path(self, extension: str) -> str:
        classifier = f"-{self.classifier}" if self.classifier and extension != "pom" else ""
        return f"{self.folder}/{self.name}-{self.version}{classifier}.{extension}"

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"


@dataclass(frozen=True)
class Dependency:
    """A dependency as a POM declares it, with its values filled in."""

    group: str
    name: str
    version: str
    scope: str = "compile"
    kind: str = "jar"
    classifier: str = ""
    optional: bool = False
    exclusions: frozenset[tuple[str, str]] = frozenset()

    @property
    def key(self) -> tuple[str, str, str, str]:
        return (self.group, self.name, self.kind, self.classifier)


@dataclass(frozen=True)
class Pom:
    """A POM together with its parents: properties, and the versions that it manages."""

    properties: Mapping[str, str]
    managed: Mapping[tuple[str, str, str, str], Dependency]
    dependencies: Sequence[Dependency]


@dataclass
class Repository:
    """A folder in Maven's layout that is filled from a remote repository: each file is downloaded once, and verified at each use."""

    folder: Path
    url: str = CENTRAL
    _poms: dict[Artifact, Pom] = field(default_factory=dict)

    def file(self, artifact: Artifact, extension: str) -> Path:
        """The artifact's file, with the SHA-1 that the repository states beside it."""
        path = artifact.path(extension)
        target = self.folder / path
        checksum = target.with_name(target.name + ".sha1")
        for one, remote in ((checksum, f"{path}.sha1"), (target, path)):
            if not one.exists():
                self._download(remote, one)
        self.verify(target)
        return target

    def verify(self, target: Path) -> None:
        """Compare a file with the checksum beside it. A file that differs is removed, so that the next run downloads it again."""
        checksum = target.with_name(target.name + ".sha1")
        stated = checksum.read_text("ascii").split()[:1]
        found = hashlib.sha1(target.read_bytes(), usedforsecurity=False).hexdigest()
        if stated != [found]:
            target.unlink()
            checksum.unlink()
            raise ResolutionError(
                f"{target.name}: SHA-1 is {found}, the repository states {' '.join(stated)}. Run it again"
            )

    def _download(self, path: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f"{target.name}.{os.getpid()}")
        try:
            with urllib.request.urlopen(f"{self.url}/{path}", timeout=60) as answer:  # noqa: S310 - the user states the URL
                partial.write_bytes(answer.read())
        except urllib.error.URLError as e:
            raise ResolutionError(f"{self.url}/{path}: {e.reason}") from e
        partial.replace(target)

    def pom(self, artifact: Artifact) -> Pom:
        """The effective POM, as far as dependencies need it."""
        artifact = Artifact(artifact.group, artifact.name, artifact.version)
        if artifact not in self._poms:
            self._poms[artifact] = self._effective(artifact)
        return self._poms[artifact]

    def _effective(self, artifact: Artifact) -> Pom:
        chain = [_root(self.file(artifact, "pom"))]
        while (parent := chain[-1].find("parent")) is not None:
            if len(chain) > _PARENTS:
                raise ResolutionError(f"{artifact}: its parents have no end")
            chain.append(_root(self.file(Artifact(*(_text(parent, name) for name in _COORDINATES)), "pom")))
        properties: dict[str, str] = {}
        for root in reversed(chain):
            properties |= {one.tag: (one.text or "").strip() for one in root.findall("properties/*")}
        own = {"groupId": artifact.group, "artifactId": artifact.name, "version": artifact.version}
        for prefix in ("project.", "pom.", ""):
            properties |= {prefix + name: value for name, value in own.items()}
        parent = chain[0].find("parent")
        if parent is not None:
            properties |= {f"project.parent.{name}": _text(parent, name) for name in _COORDINATES}
        managed: dict[tuple[str, str, str, str], Dependency] = {}
        for root in chain:  # what a POM manages itself precedes what its parents do, and that what it imports
            for one in _dependencies(root, "dependencyManagement/dependencies/dependency", properties):
                if one.scope == "import":
                    continue
                managed.setdefault(one.key, one)
        for root in chain:
            for one in _dependencies(root, "dependencyManagement/dependencies/dependency", properties):
                if one.scope == "import":
                    for key, imported in self.pom(Artifact(one.group, one.name, one.version)).managed.items():
                        managed.setdefault(key, imported)
        declared: dict[tuple[str, str, str, str], Dependency] = {}
        for root in reversed(chain):
            for one in _dependencies(root, "dependencies/dependency", properties, managed):
                declared[one.key] = one
        return Pom(properties, managed, tuple(declared.values()))


_COORDINATES: Final = ("groupId", "artifactId", "version")


def _root(path: Path) -> ElementTree.Element:
    """The POM without namespaces."""
    root = ElementTree.fromstring(path.read_bytes())  # noqa: S314 - its checksum was verified; expat limits expansion
    for element in root.iter():
        element.tag = element.tag.rsplit("}", 1)[-1]
    return root


def _text(element: ElementTree.Element, name: str) -> str:
    return (element.findtext(name) or "").strip()


def _filled(text: str, properties: Mapping[str, str]) -> str:
    for _ in range(10):  # properties may name properties
        filled = _PROPERTY.sub(lambda match: properties.get(match[1], match[0]), text)
        if filled == text:
            break
        text = filled
    return text


def _dependencies(
    root: ElementTree.Element,
    path: str,
    properties: Mapping[str, str],
    managed: Mapping[tuple[str, str, str, str], Dependency] | None = None,
) -> Iterator[Dependency]:
    for element in root.findall(path):
        values = {one.tag: _filled((one.text or "").strip(), properties) for one in element}
        key = (
            values["groupId"],
            values["artifactId"],
            values.get("type", "jar"),
            values.get("classifier", ""),
        )
        version, scope = values.get("version", ""), values.get("scope", "")
        exclusions = frozenset(
            (_filled(_text(one, "groupId"), properties), _filled(_text(one, "artifactId"), properties))
            for one in element.findall("exclusions/exclusion")
        )
        known = (managed or {}).get(key)
        if known is not None:
            version, scope, exclusions = version or known.version, scope or known.scope, exclusions | known.exclusions
        yield Dependency(
            key[0], key[1], version, scope or "compile", key[2], key[3], values.get("optional") == "true", exclusions
        )


def resolve(repository: Repository, wanted: Sequence[Artifact]) -> list[Artifact]:
    """The runtime class path of some artifacts, as Maven mediates: the nearest declaration wins, and of two as near the first.

    Artifacts of optional dependencies, of scope test or provided, and those that a dependency on the way excludes are left out.
    """
    chosen: dict[tuple[str, str, str, str], Artifact] = {}
    queue = deque(
        (Dependency(one.group, one.name, one.version, classifier=one.classifier), frozenset[tuple[str, str]]())
        for one in wanted
    )
    while queue:
        one, excluded = queue.popleft()
        if one.key in chosen or _is_excluded(one, excluded):
            continue
        if not re.fullmatch(r"[\w.+-]+", one.version):
            raise ResolutionError(
                f"{one.group}:{one.name} has version {one.version!r}, which this resolver can't choose: install Maven"
            )
        artifact = Artifact(one.group, one.name, one.version, one.classifier)
        chosen[one.key] = artifact
        below = excluded | one.exclusions
        queue.extend(
            (child, below)
            for child in repository.pom(artifact).dependencies
            if child.scope in _RUNTIME and not child.optional and child.kind == "jar"
        )
    return list(chosen.values())


def _is_excluded(one: Dependency, excluded: frozenset[tuple[str, str]]) -> bool:
    return any(group in (one.group, "*") and name in (one.name, "*") for group, name in excluded)


def _with_maven(repository: Repository, wanted: Sequence[Artifact]) -> list[Path]:
    """The same by Maven: it downloads with strict checksums, and the files are verified once more."""
    project = repository.folder.parent / "pom.xml"
    project.parent.mkdir(parents=True, exist_ok=True)
    project.write_text(project_of(wanted), "utf-8")
    listed = project.with_name("class-path.txt")
    ran = subprocess.run(
        [
            "mvn", "--quiet", "--batch-mode", "--strict-checksums", f"--file={project}", f"-Dmaven.repo.local={repository.folder}",
            "dependency:build-classpath", "-DincludeScope=runtime", f"-Dmdep.outputFile={listed}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    if ran.returncode:
        raise ResolutionError(f"mvn failed; --resolver pom does without it\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    jars = [Path(path) for path in listed.read_text("utf-8").split(os.pathsep)]
    for jar in jars:
        repository.verify(jar)
    return jars


def project_of(wanted: Sequence[Artifact]) -> str:
    """A POM that depends on these artifacts."""
    dependencies = "".join(
        f"<dependency><groupId>{one.group}</groupId><artifactId>{one.name}</artifactId><version>{one.version}</version></dependency>"
        for one in wanted
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>lab</groupId>'
        f"<artifactId>lab</artifactId><version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>\n"
    )


def jars(repository: Repository, wanted: Sequence[Artifact], resolver: str = "auto") -> list[Path]:
    """The files of the class path. `resolver`: `maven`, `pom`, or `auto`: Maven if it is installed."""
    if resolver == "maven" or (resolver == "auto" and shutil.which("mvn")):
        return _with_maven(repository, wanted)
    return [repository.file(one, "jar") for one in resolve(repository, wanted)]
