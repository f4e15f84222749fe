"""A SOCKS5 proxy on loopback that notes where it was asked to go, and goes elsewhere."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class SocksProxy:
    """One of them: `asked` are the places it was asked for, as HOST:PORT."""

    port: int = 0
    asked: list[str] = field(default_factory=list)


@contextmanager
def socks_proxy(target: int) -> Iterator[SocksProxy]:
    """Run a proxy whose connections all lead to a port of this machine."""
    running = SocksProxy()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running.port = listening.getsockname()[1]
        threading.Thread(target=_accept, args=(listening, running, target), daemon=True).start()
        yield running


def _accept(listening: socket.socket, running: SocksProxy, target: int) -> None:
    with suppress(OSError):
        while True:
            client, _ = listening.accept()
            threading.Thread(target=_serve, args=(client, running, target), daemon=True).start()


def _serve(client: socket.socket, running: SocksProxy, target: int) -> None:
    with client, contextlib.suppress(OSError):
        client.recv(client.recv(2)[1])  # the ways to prove who one is
        client.sendall(b"\x05\x00")
        kind = client.recv(4)[3]
        if kind == 3:
            host = client.recv(client.recv(1)[0]).decode()
        else:
            raw = client.recv(4 if kind == 1 else 16)
            host = socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, raw)
        running.asked.append(f"{host}:{int.from_bytes(client.recv(2))}")
        with socket.create_connection(("127.0.0.1", target)) as there:
            client.sendall(b"\x05\x00\x00\x01" + bytes(6))
            back = threading.Thread(target=_copy, args=(there, client), daemon=True)
            back.start()
            _copy(client, there)
            back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
