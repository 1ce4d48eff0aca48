"""Log settings of nodes: stock appenders, and behind them the files of conf/ as users append or merge them, word for word.

So each run tests conf/, too: that its lines are valid, and log what an audit needs. The appenders have the names and files of those that
Kafka ships.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lab.releases import Release

CONF: Final = Path(__file__).parents[1] / "conf"
PATTERN: Final = "[%d] %p %m (%c)%n"
# appender of log4j 1, of log4j 2, file
APPENDERS: Final = (
    ("kafkaAppender", "KafkaAppender", "server.log"),
    ("stateChangeAppender", "StateChangeAppender", "state-change.log"),
    ("requestAppender", "RequestAppender", "kafka-request.log"),
    ("controllerAppender", "ControllerAppender", "controller.log"),
)
# logger, level without conf/, index of its appender
LOGGERS: Final = (
    ("kafka.request.logger", "WARN", 2),
    ("kafka.controller", "INFO", 3),
    ("org.apache.kafka.controller", "INFO", 3),
    ("state.change.logger", "INFO", 1),
)
# What clients log at DEBUG is evidence, too: leader epochs that they learn, and positions that they validate.
CLIENT_LOGGERS: Final = (
    "org.apache.kafka.clients.Metadata",
    "org.apache.kafka.clients.consumer.internals.SubscriptionState",
    "org.apache.kafka.clients.consumer.internals.OffsetFetcher",
    "org.apache.kafka.clients.consumer.internals.OffsetFetcherUtils",
)


def log4j(conf: str) -> str:
    """log4j 1: what is appended to config/log4j.properties."""
    lines = ["log4j.rootLogger=INFO, stdout, kafkaAppender"]
    lines += _log4j_appender("stdout", "org.apache.log4j.ConsoleAppender")
    for name, _, file in APPENDERS:
        lines += _log4j_appender(name, "org.apache.log4j.DailyRollingFileAppender")
        lines += [
            f"log4j.appender.{name}.File=${{kafka.logs.dir}}/{file}",
            f"log4j.appender.{name}.DatePattern='.'yyyy-MM-dd-HH",
        ]
    for logger, level, appender in LOGGERS:
        lines += [f"log4j.logger.{logger}={level}, {APPENDERS[appender][0]}", f"log4j.additivity.{logger}=false"]
    return "\n".join(lines) + "\n\n" + conf


def _log4j_appender(name: str, kind: str) -> list[str]:
    return [
        f"log4j.appender.{name}={kind}",
        f"log4j.appender.{name}.layout=org.apache.log4j.PatternLayout",
        f"log4j.appender.{name}.layout.ConversionPattern={PATTERN}",
    ]


def log4j2() -> str:
    """log4j 2: what the file of conf/ is merged into. log4j itself merges them, logger by logger."""
    appenders = "".join(
        f"""
      - name: {name}
        fileName: "${{sys:kafka.logs.dir}}/{file}"
        filePattern: "${{sys:kafka.logs.dir}}/{file}.%d{{yyyy-MM-dd-HH}}"
        PatternLayout:
          pattern: "{PATTERN}"
        TimeBasedTriggeringPolicy:
          interval: 1"""
        for _, name, file in APPENDERS
    )
    loggers = "".join(
        f"""
      - name: {logger}
        level: {level}
        additivity: false
        AppenderRef:
          ref: {APPENDERS[appender][1]}"""
        for logger, level, appender in LOGGERS
    )
    return f"""Configuration:
  Appenders:
    Console:
      name: STDOUT
      PatternLayout:
        pattern: "{PATTERN}"
    RollingFile:{appenders}
  Loggers:
    Root:
      level: INFO
      AppenderRef:
        - ref: STDOUT
        - ref: KafkaAppender
    Logger:{loggers}
"""


def node_options(release: Release, folder: Path, *, light: bool = False) -> list[str]:
    """Write a node's settings into its folder, and return the JVM's options that name them."""
    kind = "-light" if light else ""
    options = [f"-Dkafka.logs.dir={folder / 'logs'}"]
    if release.has_log4j2:
        stock = folder / "log4j2.yaml"
        stock.write_text(log4j2(), "utf-8")
        # log4j 2 stops at SIGTERM, before the broker does: answers of a controlled shutdown would not be logged, and not be counted
        options.append("-Dlog4j.shutdownHookEnabled=false")
        return [*options, f"-Dlog4j2.configurationFile={stock},{CONF / f'kafka-log4j2{kind}.yaml'}"]
    settings = folder / "log4j.properties"
    settings.write_text(log4j((CONF / f"kafka-log4j{kind}.properties").read_text("utf-8")), "utf-8")
    return [*options, f"-Dlog4j.configuration=file:{settings}"]


def client_options(release: Release, folder: Path, log: Path, debug: Sequence[str] = CLIENT_LOGGERS) -> list[str]:
    """The same for a client or for ZooKeeper, whose stdout is not for its log."""
    if release.has_log4j2:
        settings = folder / f"{log.stem}.log4j2.properties"
        lines = [
            "appender.file.type=File", "appender.file.name=file", f"appender.file.fileName={log}",
            "appender.file.layout.type=PatternLayout", f"appender.file.layout.pattern={PATTERN}",
            "rootLogger.level=INFO", "rootLogger.appenderRef.file.ref=file",
        ]  # fmt: skip
        for number, logger in enumerate(debug):
            lines += [f"logger.l{number}.name={logger}", f"logger.l{number}.level=DEBUG"]
        settings.write_text("\n".join(lines) + "\n", "utf-8")
        return [f"-Dlog4j2.configurationFile={settings}"]
    settings = folder / f"{log.stem}.log4j.properties"
    lines = [
        "log4j.rootLogger=INFO, file",
        *_log4j_appender("file", "org.apache.log4j.FileAppender"),
        f"log4j.appender.file.File={log}",
    ]
    lines += [f"log4j.logger.{logger}=DEBUG" for logger in debug]
    settings.write_text("\n".join(lines) + "\n", "utf-8")
    return [f"-Dlog4j.configuration=file:{settings}"]
