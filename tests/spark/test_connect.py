"""What is asked before a session of Spark Connect is opened."""

from __future__ import annotations

import socket
import subprocess
import sys
from importlib.util import find_spec
from types import ModuleType

import pytest

from epochaudit.spark import connect
from epochaudit.spark.connect import PORT, ConnectError, require_connect


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's packages are there, and no proxy."""
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect", ModuleType("pyspark.sql.connect"))
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", ModuleType("pyspark.sql.connect.session"))
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("raised", "detail"),
    [
        (
            ImportError("[PACKAGE_NOT_INSTALLED] grpcio >= 1.48.1 must be installed"),
            ": grpcio >= 1.48.1 must be installed",
        ),
        (SystemExit(0), ""),
    ],
)
def test_missing_packages_are_named_with_what_installs_them(
    monkeypatch: pytest.MonkeyPatch, raised: BaseException, detail: str
) -> None:
    def absent(_: str) -> None:
        raise raised

    monkeypatch.setattr(connect, "import_module", absent)
    with pytest.raises(ConnectError) as caught:
        require_connect("sc://host")
    assert str(caught.value) == f"sc://host needs what `pip install 'epochaudit[connect]'` installs{detail}"


@pytest.mark.skipif(find_spec("pandas") is not None, reason="what a client of Connect needs is installed")
def test_a_process_without_a_main_file_does_not_end_with_0() -> None:
    program = "import epochaudit; epochaudit.session('sc://127.0.0.1:1')"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "ConnectError: sc://127.0.0.1:1 needs what `pip install 'epochaudit[connect]'` installs" in ran.stderr


@pytest.mark.usefixtures("installed")
def test_a_server_that_takes_connections_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_connect(f"sc://127.0.0.1:{server.getsockname()[1]}/;token=abc")


@pytest.mark.usefixtures("installed")
def test_a_server_that_does_not_answer_is_named_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    with pytest.raises(
        ConnectError, match=f"^no Spark Connect server answers at 127.0.0.1:{closed}: Connection refused$"
    ):
        require_connect(f"sc://127.0.0.1:{closed}")


@pytest.mark.usefixtures("installed")
def test_the_port_is_sparks_unless_it_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def answering(place: tuple[str, int], _: float) -> socket.socket:
        asked.append(place)
        return socket.socket()

    monkeypatch.setattr(socket, "create_connection", answering)
    require_connect("sc://host")
    assert asked == [("host", PORT)]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("url", ["sc://", "sc://host:port", "sc://[::1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConnectError, match="is not sc://HOST:PORT"):
        require_connect(url)


@pytest.mark.usefixtures("installed")
def test_a_proxy_is_left_to_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    require_connect("sc://nosuchhost.invalid")
