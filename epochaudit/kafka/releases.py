"""Releases, inter-broker protocols and levels of metadata.version, as numbers that can be compared."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

MAJOR: Final = 1_000_000
MINOR: Final = 1_000

VERSION: Final = r"^(\d+)\.(\d+)(?:\.(\d+))?"
"""Matches the beginning of a version line or folder name: major, minor, patch."""
PROTOCOL: Final = r"^(\d+)\.(\d+)(?:-IV(\d+))?"
"""Matches an inter.broker.protocol.version from 1.0 on: major, minor, IV step."""
LAST_STEP: Final = MINOR - 1
"""The IV step of a protocol that names none: `2.7` means the last one of 2.7."""


def release(name: str) -> int:
    """A release as a number: `3.9.1` is 3009001, `3.3` is 3003000. Raises ValueError."""
    return _number(VERSION, name, 0)


def protocol(name: str) -> int:
    """An inter.broker.protocol.version as a number, with the IV step for the patch: `2.7-IV2` is 2007002. Raises ValueError."""
    return _number(PROTOCOL, name, LAST_STEP)


def _number(pattern: str, name: str, default_patch: int) -> int:
    parts = re.match(rf"{pattern}$", name)
    if parts is None:
        raise ValueError(f"{name!r} is no version: expected one as 3.9.1 or 2.7-IV2")
    return int(parts[1]) * MAJOR + int(parts[2]) * MINOR + (default_patch if parts[3] is None else int(parts[3]))


class MetadataVersion(IntEnum):
    """Feature levels of metadata.version, named as in org.apache.kafka.server.common.MetadataVersion."""

    IBP_3_0_IV1 = 1
    IBP_3_1_IV0 = 2
    IBP_3_2_IV0 = 3
    IBP_3_3_IV0 = 4
    IBP_3_3_IV1 = 5
    IBP_3_3_IV2 = 6
    IBP_3_3_IV3 = 7
    IBP_3_4_IV0 = 8
    IBP_3_5_IV0 = 9
    IBP_3_5_IV1 = 10
    IBP_3_5_IV2 = 11
    IBP_3_6_IV0 = 12
    IBP_3_6_IV1 = 13
    IBP_3_6_IV2 = 14
    IBP_3_7_IV0 = 15
    IBP_3_7_IV1 = 16
    IBP_3_7_IV2 = 17
    IBP_3_7_IV3 = 18
    IBP_3_7_IV4 = 19
    IBP_3_8_IV0 = 20
    IBP_3_9_IV0 = 21
    IBP_4_0_IV0 = 22
    IBP_4_0_IV1 = 23
    IBP_4_0_IV2 = 24
    IBP_4_0_IV3 = 25
    IBP_4_1_IV0 = 26
    IBP_4_1_IV1 = 27
    IBP_4_2_IV0 = 28
    IBP_4_2_IV1 = 29
    IBP_4_3_IV0 = 30
