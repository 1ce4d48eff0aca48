"""The resolver follows Maven's rules, and believes no file without its checksum. The repository is a folder: no network."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.maven import Artifact, Repository, ResolutionError, jars, project_of, resolve
from lab.releases import LOG4J2, Release, jars_of


class Remote:
    """A repository that is a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.with_name(path.name + ".sha1").write_text(hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())

    def publish(self, name: str, *dependencies: str, version: str = "1", head: str = "", kind: str = "jar") -> None:
        """A POM, with or without namespace, and its jar."""
        listed = "".join(f"<dependency><groupId>g</groupId>{one}</dependency>" for one in dependencies)
        text = (
            '<project xmlns="http://maven.apache.org/POM/4.0.0">'
            f"<artifactId>{name}</artifactId>{head}<dependencies>{listed}</dependencies></project>"
        )
        self.put(f"g/{name}/{version}/{name}-{version}.pom", text)
        if kind == "jar":
            self.put(f"g/{name}/{version}/{name}-{version}.jar", f"{name} {version}")


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote(tmp_path / "remote")


@pytest.fixture
def repository(tmp_path: Path, remote: Remote) -> Repository:
    return Repository(tmp_path / "cache", remote.folder.as_uri())


def on(name: str, version: str = "1", more: str = "") -> str:
    stated = f"<version>{version}</version>" if version else ""
    return f"<artifactId>{name}</artifactId>{stated}{more}"


def resolved(repository: Repository, *names: str) -> Sequence[str]:
    return [f"{one.name} {one.version}" for one in resolve(repository, [Artifact("g", name, "1") for name in names])]


def test_the_nearest_version_wins_and_of_two_as_near_the_first(remote: Remote, repository: Repository) -> None:
    remote.publish("app", on("left"), on("right"), on("near", "2"))
    remote.publish("left", on("near", "3"), on("deep", "1"))
    remote.publish("right", on("deep", "2"))
    for name, version in (("near", "2"), ("deep", "1")):
        remote.publish(name, version=version)
    assert resolved(repository, "app") == ["app 1", "left 1", "right 1", "near 2", "deep 1"]


def test_what_tests_need_what_is_provided_and_what_is_optional_is_left_out(
    remote: Remote, repository: Repository
) -> None:
    remote.publish(
        "app",
        on("kept", more="<scope>runtime</scope>"),
        on("junit", more="<scope>test</scope>"),
        on("servlet", more="<scope>provided</scope>"),
        on("extra", more="<optional>true</optional>"),
        on("bom", more="<type>pom</type>"),
    )
    remote.publish("kept")
    assert resolved(repository, "app") == ["app 1", "kept 1"]


@pytest.mark.parametrize("group", ["g", "*"])
def test_an_exclusion_holds_for_all_below_it_and_not_beside_it(
    remote: Remote, repository: Repository, group: str
) -> None:
    without = f"<exclusions><exclusion><groupId>{group}</groupId><artifactId>gone</artifactId></exclusion></exclusions>"
    remote.publish("app", on("left", more=without), on("right"))
    remote.publish("left", on("middle"))
    remote.publish("middle", on("gone", "1"))
    remote.publish("right", on("gone", "2"))
    remote.publish("gone", version="2")
    assert resolved(repository, "app") == ["app 1", "left 1", "right 1", "middle 1", "gone 2"]


def test_versions_come_from_properties_parents_and_imported_lists(remote: Remote, repository: Repository) -> None:
    def managed(name: str, version: str, more: str = "") -> str:
        return f"<dependency><groupId>g</groupId>{on(name, version, more)}</dependency>"

    def management(*entries: str) -> str:
        return f"<dependencyManagement><dependencies>{''.join(entries)}</dependencies></dependencyManagement>"

    parent = "<parent><groupId>g</groupId><artifactId>parent</artifactId><version>7</version></parent>"
    imported = managed("bom", "5", "<type>pom</type><scope>import</scope>")
    remote.publish(
        "parent",
        version="7",
        kind="pom",
        head="<properties><a.version>1</a.version><b.version>${a.version}.2</b.version></properties>"
        + management(managed("a", "${a.version}"), managed("c", "from-parent"), imported),
    )
    remote.publish("bom", version="5", kind="pom", head=management(managed("d", "4"), managed("a", "never")))
    head = parent + "<properties><a.version>9</a.version></properties>" + management(managed("c", "3"))
    remote.publish(
        "app", on("a", ""), on("b", "${b.version}"), on("c", ""), on("d", ""), on("e", "${project.version}"), head=head
    )
    for name, version in (("a", "9"), ("b", "9.2"), ("c", "3"), ("d", "4"), ("e", "1")):
        remote.publish(name, version=version)
    assert resolved(repository, "app") == ["app 1", "a 9", "b 9.2", "c 3", "d 4", "e 1"]


def test_a_range_of_versions_is_refused_and_not_guessed(remote: Remote, repository: Repository) -> None:
    remote.publish("app", on("a", "[1,2)"))
    with pytest.raises(ResolutionError, match=r"g:a has version '\[1,2\)'.*install Maven"):
        resolved(repository, "app")


def test_jars_are_downloaded_once_and_verified_at_each_use(remote: Remote, repository: Repository) -> None:
    remote.publish("app", on("a"))
    remote.publish("a")
    wanted = [Artifact("g", "app", "1")]
    (first, second) = jars(repository, wanted, "pom")
    assert (first.read_text(), second.read_text()) == ("app 1", "a 1")
    (remote.folder / "g/a/1/a-1.jar").unlink()
    assert jars(repository, wanted, "pom") == [first, second]
    second.write_text("something else")
    with pytest.raises(ResolutionError, match=r"a-1\.jar: SHA-1 is \w+, the repository states \w+"):
        jars(repository, wanted, "pom")
    assert not second.exists()


def test_a_jar_that_arrives_damaged_is_not_used(remote: Remote, repository: Repository) -> None:
    remote.publish("app")
    (remote.folder / "g/app/1/app-1.jar").write_text("cut off")
    with pytest.raises(ResolutionError, match=r"app-1\.jar: SHA-1"):
        jars(repository, [Artifact("g", "app", "1")], "pom")
    remote.put("g/app/1/app-1.jar", "app 1")
    assert [jar.read_text() for jar in jars(repository, [Artifact("g", "app", "1")], "pom")] == ["app 1"]


def test_what_the_repository_does_not_have_is_named(repository: Repository) -> None:
    with pytest.raises(ResolutionError, match=r"/g/app/1/app-1\.pom"):
        resolved(repository, "app")


def test_maven_is_given_the_same_artifacts() -> None:
    text = project_of([Artifact("org.apache.kafka", "kafka_2.13", "4.1.0"), Artifact("g", "b", "2")])
    assert "<groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.1.0</version>" in text
    assert text.count("<dependency>") == 2


def kafka_of(remote: Remote, version: str, *others: tuple[str, str, str]) -> None:
    """A release of Kafka that depends on other artifacts."""
    listed = "".join(
        f"<dependency><groupId>{group}</groupId>{on(name, number)}</dependency>" for group, name, number in others
    )
    for group, name, number in (("org.apache.kafka", "kafka_2.13", version), *others):
        folder = f"{group.replace('.', '/')}/{name}/{number}/{name}-{number}"
        dependencies = f"<dependencies>{listed}</dependencies>" if name == "kafka_2.13" else ""
        remote.put(f"{folder}.pom", f"<project>{dependencies}</project>")
        remote.put(f"{folder}.jar", name)


@pytest.mark.parametrize(("named", "expected"), [("2.25.5", "2.25.5"), (None, LOG4J2)])
def test_log4j_2_gets_the_binding_of_its_own_version(
    tmp_path: Path, remote: Remote, named: str | None, expected: str
) -> None:
    core = [("org.apache.logging.log4j", "log4j-core", named)] if named else []
    kafka_of(remote, "4.1.0", *core, ("com.fasterxml.jackson.core", "jackson-databind", "2.16.2"))
    kafka_of(remote, "0", ("com.fasterxml.jackson.dataformat", "jackson-dataformat-yaml", "2.16.2"))
    kafka_of(remote, "0", ("org.apache.logging.log4j", "log4j-slf4j-impl", expected))
    found = jars_of(Release("4.1.0"), tmp_path / "cache", remote.folder.as_uri(), "pom")
    assert {f"log4j-slf4j-impl-{expected}.jar", "jackson-dataformat-yaml-2.16.2.jar"} <= {jar.name for jar in found}
    assert [jar.name for jar in found if "log4j-core" in jar.name] == ([f"log4j-core-{named}.jar"] if named else [])


def test_a_class_path_is_resolved_once_and_then_needs_no_repository(tmp_path: Path, remote: Remote) -> None:
    kafka_of(remote, "3.9.1", ("org.slf4j", "slf4j-api", "1.7.36"))
    kafka_of(remote, "0", ("org.slf4j", "slf4j-reload4j", "1.7.36"))
    cache, release = tmp_path / "cache", Release("3.9.1")
    found = jars_of(release, cache, remote.folder.as_uri(), "pom")
    assert [jar.name for jar in found] == ["kafka_2.13-3.9.1.jar", "slf4j-reload4j-1.7.36.jar", "slf4j-api-1.7.36.jar"]
    assert jars_of(release, cache, "file:///nowhere", "pom") == found
    found[1].write_text("something else")
    with pytest.raises(ResolutionError, match=r"slf4j-reload4j-1\.7\.36\.jar: SHA-1"):
        jars_of(release, cache, "file:///nowhere", "pom")
    assert jars_of(release, cache, remote.folder.as_uri(), "pom") == found
