"""The light settings of the request log as log4j applies them: read from the files in conf/, to be applied to recorded lines."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from epochaudit.events.package_data import package_data

Chain = list[tuple[str, bool]]  # what a line has to contain for the filter to decide, and how it does
LOG4J2, LOG4J, LOG4J_TEXT = SETTINGS = (
    "kafka-log4j2-light.yaml",
    "kafka-log4j-light.properties",
    "kafka-log4j-light-text.properties",
)


def chain(name: str) -> Chain:
    """The filters of a file in conf/, in the order in which they are asked."""
    text = (package_data("conf") / name).read_text()
    if name.endswith("yaml"):
        return [
            (m[1], m[2] == "ACCEPT")
            for m in re.finditer(r"text: '([^']*)', onMatch: (ACCEPT|DENY), onMismatch: NEUTRAL", text)
        ]
    numbers = sorted(
        set(re.findall(r"requestAppender\.filter\.(\d+)=org\.apache\.log4j\.varia\.StringMatchFilter", text))
    )
    values = dict(re.findall(r"requestAppender\.filter\.(\d+\.\w+)=(.*)", text))
    return [(values[f"{n}.StringToMatch"], values[f"{n}.AcceptOnMatch"] == "true") for n in numbers]


def is_logged(message: str, filters: Chain) -> bool:
    """As log4j decides: the first filter whose text the message contains, and yes where none does."""
    return next((accepts for text, accepts in filters if text in message), True)


def as_light(line: str) -> str:
    """A request log's line as the light settings lay it out."""
    return line.replace("(kafka.request.logger)", "(kafka.request.logger.light)")


def light_copy(source: Path, target: Path, settings: str) -> Path:
    """A copy of a capture whose brokers had logged requests with these settings."""
    filters = chain(settings)
    shutil.copytree(source, target)
    for log in target.rglob("kafka-request.log*"):
        lines = log.read_text("utf-8", errors="surrogateescape").splitlines(keepends=True)
        light = "".join(as_light(line) for line in lines if is_logged(line, filters))
        log.write_text(light, "utf-8", errors="surrogateescape")
    return target
