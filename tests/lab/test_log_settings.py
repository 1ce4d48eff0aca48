"""Nodes of the lab log by the files of conf/, as users append or merge them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from lab.log_settings import APPENDERS, CONF, client_options, log4j, log4j2, node_options
from lab.releases import Release

OLD, NEW = Release("3.9.1"), Release("4.1.0")


@pytest.mark.parametrize("light", [False, True])
def test_the_file_of_conf_stands_word_for_word_at_the_end_of_log4j_settings(tmp_path: Path, light: bool) -> None:
    logs, settings = node_options(OLD, tmp_path, light=light)
    text = (tmp_path / "log4j.properties").read_text()
    assert text.endswith((CONF / f"kafka-log4j{'-light' if light else ''}.properties").read_text())
    assert settings == f"-Dlog4j.configuration=file:{tmp_path / 'log4j.properties'}"
    assert logs == f"-Dkafka.logs.dir={tmp_path / 'logs'}"


@pytest.mark.parametrize("light", [False, True])
def test_log4j2_merges_the_file_of_conf_itself(tmp_path: Path, light: bool) -> None:
    _, hook, settings = node_options(NEW, tmp_path, light=light)
    assert hook == "-Dlog4j.shutdownHookEnabled=false"
    stock, conf = settings.removeprefix("-Dlog4j2.configurationFile=").split(",")
    assert yaml.safe_load(Path(stock).read_text()) == yaml.safe_load(log4j2())
    assert Path(conf) == CONF / f"kafka-log4j2{'-light' if light else ''}.yaml"
    assert Path(conf).is_file()


@pytest.mark.parametrize("name", ["kafka-log4j.properties", "kafka-log4j-light.properties"])
def test_each_appender_that_conf_names_is_defined(name: str) -> None:
    conf = (CONF / name).read_text()
    text = log4j(conf)
    defined = set(re.findall(r"^log4j\.appender\.(\w+)=", text, re.M))
    configured = set(re.findall(r"^log4j\.appender\.(\w+)\.", conf, re.M))
    loggers = re.findall(r"^log4j\.(?:rootLogger|logger\.\S+)=\w+(?:, *(.+))?$", text, re.M)
    named = {one.strip() for appenders in loggers for one in appenders.split(",") if one}
    assert configured | named <= defined
    assert {appender for appender, _, _ in APPENDERS} <= named


def test_each_appender_that_conf_names_is_defined_for_log4j2() -> None:
    stock = yaml.safe_load(log4j2())["Configuration"]
    defined = {one["name"] for one in stock["Appenders"]["RollingFile"]}
    assert defined == {name for _, name, _ in APPENDERS}
    for name in ("kafka-log4j2.yaml", "kafka-log4j2-light.yaml"):
        conf = yaml.safe_load((CONF / name).read_text())["Configuration"]
        loggers = [*stock["Loggers"]["Logger"], *conf["Loggers"]["Logger"]]
        assert {one["AppenderRef"]["ref"] for one in loggers if "AppenderRef" in one} <= defined


def test_stock_settings_alone_do_not_log_requests() -> None:
    assert "log4j.logger.kafka.request.logger=WARN, requestAppender" in log4j("")
    (stock,) = (
        one
        for one in yaml.safe_load(log4j2())["Configuration"]["Loggers"]["Logger"]
        if one["name"] == "kafka.request.logger"
    )
    assert stock["level"] == "WARN"


@pytest.mark.parametrize("release", [OLD, NEW], ids=lambda release: release.version)
def test_a_client_logs_to_a_file_and_leaves_stdout_to_the_answers(tmp_path: Path, release: Release) -> None:
    (option,) = client_options(release, tmp_path, tmp_path / "shop.log")
    (settings,) = tmp_path.glob("shop.log4j*.properties")
    assert option.endswith(str(settings))
    text = settings.read_text()
    assert str(tmp_path / "shop.log") in text
    assert "Console" not in text
    assert "org.apache.kafka.clients.Metadata" in text
