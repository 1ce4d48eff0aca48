"""A simulated broker with fetch sessions (KIP-227): clients list partitions, leave them to the session, and take them out.

The state machine follows FetchSession (newContext, IncrementalFetchContext) and FetchSessionHandler. The broker restarts and forgets
its sessions. Lines of some requests are missing. A fault makes the broker answer for a partition that a session does not hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from prove.history import FETCH_SESSIONS, History, ProcessStarts, Release, SessionFetch
from prove.simulators.simulation import Simulation

BROKER: Final = 1
PARTITIONS: Final = range(5)
CLIENTS: Final = ("billing", "audit", "broker-2-fetcher-0")

RELEASES: Final = (
    Release(FETCH_SESSIONS, "2.8.2", "json", fetch=12),
    Release(FETCH_SESSIONS, "3.9.1", "json", fetch=17),
    Release(FETCH_SESSIONS, "4.1.2", "kraft", fetch=17),
)
SESSION_FAULTS: Final = (
    "partition answered that was never listed",
    "partition answered after it was taken out",
    "partition answered as it is taken out",
)
"""Answers for a partition that a session does not hold."""


@dataclass
class Session:
    """A client's session: the partitions that it holds. barred: those that are not listed any more."""

    id: int
    client: str
    epoch: int = 0
    held: set[int] = field(default_factory=set)
    taken_out: set[int] = field(default_factory=set)
    barred: set[int] = field(default_factory=set)


@dataclass
class SessionBroker(Simulation):
    """The broker and its history so far."""

    sessions: dict[str, Session] = field(default_factory=dict)
    lossy: bool = False

    def start(self) -> None:
        """The broker's process starts: it has no session."""
        for session in self.sessions.values():
            session.id = -abs(session.id)
        starts = ProcessStarts(len(self.history.events), BROKER, self.now, version=self.release.version, broker_epoch=7)
        self.history.events.append(starts)
        self.now += 2000

    def fetch(self) -> None:
        """A client's next Fetch: a new session, or a request of the one that it has."""
        client = self.choices.choice(CLIENTS)
        session = self.sessions.get(client)
        if session is None or self.choices.random() < 0.04:
            session = self.sessions[client] = Session(1_000_000 + self.correlation, client)
            listed = [one for one in PARTITIONS if self.choices.random() < 0.6]
            session.held = {*listed}
            self._log(session, listed, [], listed)
            return
        session.epoch += 1
        if session.id < 0:  # the broker has restarted
            self._log(session, [], [], [], error_code=70)
            del self.sessions[client]
            return
        new = [one for one in PARTITIONS if one not in session.held | session.barred and self.choices.random() < 0.15]
        listed = new + [one for one in session.held if self.choices.random() < 0.3]
        out = [one for one in session.held if one not in listed and self.choices.random() < 0.12]
        session.held = (session.held | {*listed}) - {*out}
        session.taken_out = (session.taken_out | {*out}) - {*listed}
        answered = [one for one in session.held if one in listed or self.choices.random() < 0.4]
        self._log(session, listed, out, answered + self._wrong(session, out))

    def _wrong(self, session: Session, out: list[int]) -> list[int]:
        """A partition that the session does not hold, for which it is answered all the same. It is not listed any more."""
        before = [one for one in session.taken_out if one not in out]
        never = [one for one in PARTITIONS if one not in session.held | session.taken_out]
        found = None
        if never and self.takes("partition answered that was never listed"):
            found = never[0]
        elif before and self.takes("partition answered after it was taken out"):
            found = before[0]
        elif out and self.takes("partition answered as it is taken out"):
            found = out[0]
        if found is None:
            return []
        session.barred.add(found)
        return [found]

    def _log(
        self, session: Session, listed: list[int], out: list[int], answered: list[int], error_code: int = 0
    ) -> None:
        self.correlation += 1
        self.now += self.choices.randint(5, 400)
        if self.lossy and self.choices.random() < 0.1:
            return  # its line is missing
        self.history.events.append(
            SessionFetch(
                len(self.history.events), BROKER, self.now, version=self.release.fetch, correlation_id=self.correlation,
                client_id=session.client, session_id=abs(session.id), session_epoch=session.epoch, listed=tuple(listed),
                forgotten=tuple(out), answered=tuple(sorted(answered)), error_code=error_code, arrived=self.now - 3,
            )
        )  # fmt: skip

    def run(self, steps: int) -> History:
        """Let the broker start, and serve."""
        self.lossy = self.choices.random() < 0.3
        self.start()
        for _ in range(6 * steps):
            if self.faulty and self.fault is None and len(self.history.faults) < 2 and self.choices.random() < 0.1:
                self.fault = self.choices.choice(SESSION_FAULTS)
            self.fetch()
            if self.choices.random() < 0.02:
                self.start()
        return self.history


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of fetch sessions. faulty: breaches are planted."""
    return SessionBroker(name, release, choices, faulty).run(steps)
