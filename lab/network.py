"""Connections that can be cut: a broker reaches its controllers or ZooKeeper through a link of its own."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Lock, Thread
from typing import Final

_LOOPBACK: Final = "127.0.0.1"
_CHUNK: Final = 65536


class Link:
    """A port of the loopback address that forwards each connection to another port, until it is cut.

    A cut closes all connections, and further ones as soon as they are accepted: as a firewall that answers with a reset. `close` ends the
    link.
    """

    def __init__(self, target: int) -> None:
        self._target, self._is_cut, self._lock = target, False, Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server((_LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close the connections, and refuse new ones."""
        with self._lock:
            self._is_cut = True
            for one in self._open:
                with suppress(OSError):  # its other end may have closed it
                    one.shutdown(socket.SHUT_RDWR)

    def restore(self) -> None:
        """Forward new connections again."""
        with self._lock:
            self._is_cut = False

    def close(self) -> None:
        """Cut it for good."""
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:  # closed
                return
            try:
                far = socket.create_connection((_LOOPBACK, self._target))
            except OSError:  # nobody listens there now
                near.close()
                continue
            with self._lock:
                refused = self._is_cut
                if not refused:
                    self._open |= {near, far}
            if refused:
                near.close()
                far.close()
                continue
            for source, target in ((near, far), (far, near)):
                Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        """Copy what one end sends. At its end both connections are closed."""
        with suppress(OSError):  # cut, or closed by the other direction
            while chunk := source.recv(_CHUNK):
                target.sendall(chunk)
        with self._lock:
            self._open -= {source}
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
        source.close()
