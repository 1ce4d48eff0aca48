"""What a session of Spark Connect needs before it is opened: a client's packages, and a server that answers."""

from __future__ import annotations

import os
import socket
from importlib import import_module
from typing import Final
from urllib.parse import urlsplit

SCHEME: Final = "sc://"
PORT: Final = 15002  # Spark's default
PATIENCE: Final = 10.0  # seconds
_PROXIES: Final = ("grpc_proxy", "https_proxy", "http_proxy")  # where gRPC looks, in this order


class ConnectError(Exception):
    """No session of Spark Connect can be opened; the message states what is missing."""


def require_connect(url: str) -> None:
    """Raise ConnectError unless the client's packages are installed and the server of sc://HOST:PORT takes connections.

    Spark's client tries again for ten minutes, in silence, if nothing listens there.
    """
    try:
        import_module("pyspark.sql.connect.session")
    except (ImportError, SystemExit) as error:
        # where no file is the main module, as with `python -c`, Spark believes that it runs its own tests: it ends the process with 0
        missing = str(error).partition("] ")[2]
        raise ConnectError(
            f"{url} needs what `pip install 'epochaudit[connect]'` installs" + (f": {missing}" if missing else "")
        ) from error
    try:
        place = urlsplit(url)
        host, port = place.hostname, place.port or PORT
    except ValueError as error:
        raise ConnectError(f"{url} is not sc://HOST:PORT: {error}") from error
    if not host:
        raise ConnectError(f"{url} is not sc://HOST:PORT")
    if any(os.environ.get(name) for name in _PROXIES):
        return  # gRPC asks the proxy; a connection of our own would say nothing about it
    try:
        socket.create_connection((host, port), PATIENCE).close()
    except OSError as error:
        raise ConnectError(f"no Spark Connect server answers at {host}:{port}: {error.strerror or error}") from error
