"""Which patterns a release still writes, and which of its texts no pattern reads."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Final

from epochaudit.sources.client_log import SNAPSHOT
from lab.statements.patterns import CLIENTS, Read, patterns, words
from lab.statements.program import Program
from lab.statements.texts import Choice, Statement, Text, shown
from lab.statements.wordings import Fit, Wording, begins, constant_words

_LOGGER: Final = " (a)"
ALSO: Final = (
    "ReplicaManager", "KafkaRaftClient", "LeaderState", "FollowerState", "CandidateState", "DefaultAlterPartitionManager",
    "AlterPartitionManager", "PartitionStateMachine", "ReplicaStateMachine", "ControllerChannelManager", "ReplicaAlterLogDirsThread",
    "AbstractFetcherManager", "ReplicaFetcherManager", "RemoteLogManager", "ProducerStateManager", "BrokerMetadataPublisher",
    "MetadataLoader", "KafkaMetadataLog", "TransactionCoordinator", "TransactionStateManager", "GroupCoordinator",
    "GroupMetadataManager", "ZkMigrationClient", "KRaftMigrationDriver", "AssignmentsManager", "ControllerRegistrationManager",
)  # fmt: skip
"""Loggers of which no pattern reads a line, and that write about epochs."""
SNAPSHOT_PART: Final = "PartitionMetadata"  # the decoder reads each of them as a message


@cache
def _wording(pattern: bytes) -> Wording:
    return Wording(pattern)


class Checked:
    """A release's texts against all patterns."""

    def __init__(self, program: Program, wanted: Sequence[Read] | None = None) -> None:
        self.program = program
        self._led_to = cache(self._leads_to)
        self._fragments = cache(self._fragments_of)
        self.read: dict[Read, list[Statement]] = {}
        """Pattern -> the texts that it reads; empty if it reads none."""
        self.texts_read: dict[str, set[Text]] = defaultdict(set)
        """Logger -> texts that some pattern reads."""
        for one in patterns() if wanted is None else wanted:
            found = self._read_by(one)
            self.read[one] = found
            self.texts_read[one.logger].update(statement.text for statement in found)

    def _read_by(self, one: Read) -> list[Statement]:
        """The texts that a pattern reads. If none is whole, also those with others of their class as values."""
        fit = Fit(_wording(one.message), self.program.printed_by, self.program.prefixes)
        if one.beginning == SNAPSHOT.decode():
            parts = [_without_name(text) for text in self.program.printed_by(SNAPSHOT_PART) or ()]
            return [Statement("toString", text) for text in parts if fit.fits(text, "")]
        ending = "" if one.logger == CLIENTS else _LOGGER
        whole, composed = self._led_to(one.logger, one.beginning, one.mark)
        found = [
            statement for statement in whole if self._is_about(one, statement) and fit.fits(statement.text, ending)
        ]
        return found or [
            statement
            for statement, others in composed
            if self._is_about(one, statement) and fit.fits(statement.text, ending, others)
        ]

    def unread(self, about: str) -> dict[str, list[str]]:
        """Logger -> level and text of what it writes about something, and no pattern reads. about: a regular expression."""
        subjects = re.compile(about)
        read = set().union(*self.texts_read.values())
        found: dict[str, dict[str, None]] = {}
        for logger in (*dict.fromkeys(one.logger for one in self.read), *ALSO):
            for _, statement in self.program.written_by(logger):
                if statement.level and statement.text not in read and subjects.search(_constants(statement.text)):
                    found.setdefault(logger, {})[f"{statement.level.upper()} {shown(statement.text)}"] = None
                    read.add(statement.text)
        return {logger: list(texts) for logger, texts in found.items()}

    def _leads_to(
        self, logger: str, beginning: str, mark: bool
    ) -> tuple[list[Statement], list[tuple[Statement, list[Text]]]]:
        """The texts with whose messages the decoder goes to a beginning's patterns; the same with other texts as their values."""
        whole, composed = [], []
        for of, statement in self.program.written_by(logger):
            text = statement.text
            if not constant_words(text):
                continue
            others = (
                self._fragments(logger, of.partition("$")[0] if logger == CLIENTS else "") if statement.level else []
            )
            if mark:
                leads = beginning in _constants(text)
            else:
                ended = (*text, _LOGGER)
                leads = begins(ended, beginning)
                if not leads and not isinstance(text[0], str) and begins(ended, beginning, others):
                    composed.append((statement, others))
            if leads:
                whole.append(statement)
                if others:
                    composed.append((statement, others))
        return whole, composed

    def _is_about(self, one: Read, statement: Statement) -> bool:
        """Whether the text has a word of the pattern itself, besides those of values that classes print."""
        names = _wording(one.message).names
        values = {
            word
            for name in names
            for text in self.program.printed_by(name) or ()
            for word in words(_all_constants(text))
        }
        expected = one.words - values - names
        return not expected or not expected.isdisjoint(words(_all_constants(statement.text)))

    def _fragments_of(self, logger: str, of: str) -> list[Text]:
        """Texts with words that a logger does not write as they are. of: a class, if not all of the logger's."""
        texts = {
            statement.text: None
            for name, statement in self.program.written_by(logger)
            if (not of or name.partition("$")[0] == of)
            and not (statement.thrown or statement.level)
            and constant_words(statement.text) > 1
            and " " in _constants(statement.text)
        }
        return list(texts)


def _all_constants(text: Text) -> str:
    """Constants, also those of choices."""
    return " ".join(
        part if isinstance(part, str) else " ".join(map(_all_constants, part.texts)) if isinstance(part, Choice) else ""
        for part in text
    )


def _without_name(text: Text) -> Text:
    first, *others = text
    return (str(first).partition("(")[2], *others)


def _constants(text: Text) -> str:
    return "".join(part if isinstance(part, str) else "\0" for part in text)
