"""The embedded Valkey: broker, channel layer and cache. It keeps nothing on disk, since it only rings doorbells."""

import socket
from pathlib import Path

from laissez.stack.places import socket_dir, valkey_binary


def socket_path(state: Path) -> Path:
    """Where it listens."""
    return socket_dir(state) / "valkey.sock"


def url(state: Path) -> str:
    """REDIS_URL of the server of this state folder, known before it runs."""
    return f"unix://{socket_path(state)}"


def command(state: Path) -> tuple[str, ...]:
    """The server's command line: a private unix socket, no port, no snapshots."""
    return (
        valkey_binary(), "--port", "0", "--unixsocket", str(socket_path(state)), "--unixsocketperm", "700",
        "--save", "", "--appendonly", "no", "--daemonize", "no", "--loglevel", "warning",
        "--dir", str(socket_dir(state)),
    )  # fmt: skip


def is_ready(state: Path) -> bool:
    """Whether it answers a ping."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        try:
            client.connect(str(socket_path(state)))
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
        except OSError:
            return False
