"""PgBouncer in transaction mode, in front of the PostgreSQL of the run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.services import dies_with_parent, free_port

STARTS_IN = 30.0
POOL_SIZE = 6
"""Fewer sessions than the workers have clients: they have to share them."""


@contextmanager
def pgbouncer(postgres_url: str, folder: Path) -> Iterator[str]:
    """The URL under which it answers; ``folder`` has to be there, and open to everybody."""
    binary = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if binary is None:
        pytest.fail("no pgbouncer on this machine; install Debian's package: apt-get install pgbouncer")
    server, port = urlsplit(postgres_url), free_port()
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"""
        [databases]
        * = host={server.hostname} port={server.port} user={server.username}
        [pgbouncer]
        listen_addr = 127.0.0.1
        listen_port = {port}
        unix_socket_dir =
        auth_type = any
        pool_mode = transaction
        default_pool_size = {POOL_SIZE}
        max_client_conn = 200
        """.replace("        ", "")
    )
    url = f"postgresql://{server.username}@127.0.0.1:{port}{server.path}"
    log = folder / "pgbouncer.log"
    # It refuses to run as root.
    account: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.getuid() == 0 else {}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [binary, config],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=dies_with_parent(),
            **account,
        )
    try:
        _wait(url, process, log)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)  # at once, whoever is connected
        process.wait(10)


# Below: how it is done ---------------------------------------------------------------------------


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + STARTS_IN
    while True:
        try:
            psycopg.connect(url, connect_timeout=5, prepare_threshold=None).close()
        except psycopg.Error as error:
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"pgbouncer does not answer: {error}\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        else:
            return
