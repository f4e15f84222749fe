"""llama.cpp's own server with the starter model, in processes of their own that a test may kill.

`python -m support.llama_servers MODEL PORT_FILE` runs one; it needs tests/engines.lock.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from baton.workers.local import starter

MODEL_NAME = "smollm2-135m"
SLOTS = 2
_START_SECONDS = 300


@dataclass
class LlamaServer:
    """One of them."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def base_url(self) -> str:
        """Where it is asked."""
        return f"http://127.0.0.1:{self.port}/v1"


@contextmanager
def start_llama_servers(folder: Path, count: int) -> Iterator[list[LlamaServer]]:
    """Start so many servers; each takes SLOTS calls at once."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        ports = [folder / f"port-{number}" for number in range(count)]
        for port in ports:
            command = [sys.executable, "-m", "support.llama_servers", str(starter().path)]
            with port.with_suffix(".log").open("wb") as log:
                processes.append(
                    subprocess.Popen(
                        [*command, str(port)],
                        cwd=Path(__file__).parents[1],
                        stdout=log,
                        stderr=subprocess.STDOUT,
                    )
                )
        yield [LlamaServer(p, _read_port(f)) for p, f in zip(processes, ports, strict=True)]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _read_port(file: Path) -> int:
    end = time.monotonic() + _START_SECONDS
    while not file.exists():
        if time.monotonic() > end:
            raise AssertionError(f"it didn't start: {file.with_suffix('.log').read_text()[-2000:]}")
        time.sleep(0.1)
    return int(file.read_text())


def main(model: str, port_file: Path) -> None:
    """Run one until it is killed."""
    import xllamacpp

    asked = xllamacpp.CommonParams()
    asked.model.path = model
    asked.model_alias = {MODEL_NAME}
    asked.n_parallel, asked.n_ctx = SLOTS, SLOTS * 1024
    asked.cpuparams.n_threads = asked.cpuparams_batch.n_threads = 1
    asked.port, asked.warmup = 0, False
    server = xllamacpp.Server(asked)
    written = port_file.with_suffix(".new")
    written.write_text(server.listening_address.rpartition(":")[2])
    written.replace(port_file)  # a reader that waits for it never sees half a number
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
