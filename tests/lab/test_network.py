"""A link forwards connections until it is cut, and again when it is restored."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from lab.network import Link

SECONDS = 10


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that returns what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with connection:
            while chunk := connection.recv(1024):
                connection.sendall(chunk)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()


def connected(link: Link) -> socket.socket:
    return socket.create_connection(("127.0.0.1", link.port), SECONDS)


def answer_to(connection: socket.socket, sent: bytes) -> bytes:
    """What comes back; nothing if the connection is closed."""
    try:
        connection.sendall(sent)
        return connection.recv(1024)
    except ConnectionError:
        return b""


def test_a_link_forwards_both_ways(echo: int) -> None:
    link = Link(echo)
    with connected(link) as one, connected(link) as other:
        assert answer_to(one, b"first") == b"first"
        assert answer_to(other, b"second") == b"second"
    link.close()


def test_a_cut_closes_connections_and_refuses_new_ones_until_it_is_restored(echo: int) -> None:
    link = Link(echo)
    with connected(link) as one:
        assert answer_to(one, b"before") == b"before"
        link.cut()
        assert answer_to(one, b"cut") == b""
    with connected(link) as refused:
        assert answer_to(refused, b"cut") == b""
    link.restore()
    with connected(link) as again:
        assert answer_to(again, b"after") == b"after"
    link.close()


def test_a_link_to_nobody_closes_its_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    link = Link(port)
    with connected(link) as one:
        assert answer_to(one, b"hello") == b""
    link.close()
