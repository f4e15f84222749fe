"""Imports that leave a part out."""

from __future__ import annotations

import subprocess
import sys


def test_a_module_is_imported_as_if_an_optional_one_were_missing() -> None:
    script = (
        "import sys\n"
        "from baton.platform.import_stubs import import_without\n"
        "import_without('ssl', 'asyncio')\n"
        "import asyncio, asyncio.base_events\n"
        "assert asyncio.base_events.ssl is None and 'ssl' not in sys.modules\n"
        "async def connect():\n"
        "    server = await asyncio.start_server(lambda _, w: w.close(), '127.0.0.1', 0)\n"
        "    reader, _ = await asyncio.open_connection(*server.sockets[0].getsockname())\n"
        "    print(await reader.read())\n"
        "asyncio.run(connect())\n"
        "import ssl\n"  # others still find it
        "print(ssl.create_default_context().check_hostname)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("b''\nTrue\n", "")


def test_what_is_imported_already_stays_as_it_is() -> None:
    script = (
        "import sys, ssl\n"
        "from baton.platform.import_stubs import import_without\n"
        "import_without('ssl', 'asyncio')\n"
        "assert 'asyncio' not in sys.modules and sys.modules['ssl'] is ssl"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
