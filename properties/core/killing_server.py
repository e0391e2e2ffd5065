"""A PostgreSQL server of a test's own, which the test can stop and restart as it likes.

It listens on loopback and keeps its files in a folder that is removed with it. Where the server's
programs are not installed, `programs` is None and nobody can restart anything.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from threading import Lock
from types import TracebackType

NOBODY = 65534
SECONDS_MAX = 60
LOG_CHARACTERS = 2_000
# Where Debian keeps what is not on the path.
FOLDERS = "/usr/lib/postgresql"


def programs() -> Path | None:
    """Return the folder of the server's programs, the newest, or None."""
    found = sorted(Path(FOLDERS).glob("*/bin/initdb"), key=lambda path: path.parts[-3].zfill(8))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(on_path).resolve().parent


class PrivateServer:
    """A server that runs from entering to leaving, unless it is stopped in between."""

    def __init__(self, folder: Path) -> None:
        self._programs = folder
        self._lock = Lock()
        self._running = False
        self._folder = Path(tempfile.mkdtemp(prefix="loopcore-postgres-"))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self._port = taken.getsockname()[1]
        self.dsn = f"host=127.0.0.1 port={self._port} user=loopcore dbname=postgres"

    def __enter__(self) -> PrivateServer:
        if os.geteuid() == 0:
            os.chown(self._folder, NOBODY, NOBODY)
        self._do("initdb", "-A", "trust", "-U", "loopcore", "--no-locale", "-E", "UTF8")
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self._folder)

    def start(self) -> None:
        """Have the server answer, when whoever is about it in another thread is done."""
        with self._lock:
            self._start()

    def stop(self) -> None:
        """End the server at once, as a crash does: nothing is written, and no client is told."""
        with self._lock:
            self._stop()

    def restart(self) -> None:
        """Stop it, and start it again."""
        with self._lock:
            self._stop()
            self._start()

    def _start(self) -> None:
        if self._running:
            return
        options = (
            f"-c listen_addresses=127.0.0.1 -c port={self._port}"
            f" -c unix_socket_directories={self._folder}"
        )
        self._do("pg_ctl", "-w", "-l", str(self._folder / "log"), "-o", options, "start")
        self._running = True

    def _stop(self) -> None:
        if self._running:
            self._do("pg_ctl", "-w", "-m", "immediate", "stop")
            self._running = False

    def _do(self, program: str, *words: str) -> None:
        # The server refuses to be root; nobody may not enter every folder.
        user = NOBODY if os.geteuid() == 0 else None
        done = subprocess.run(
            [self._programs / program, "-D", self._folder / "data", *words],
            stdin=subprocess.DEVNULL,
            # Not a pipe: the server inherits it and would hold it open.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            timeout=SECONDS_MAX,
            check=False,
        )
        log = self._folder / "log"
        said = log.read_text(errors="replace")[-LOG_CHARACTERS:] if log.exists() else ""
        assert done.returncode == 0, f"{program} {words[-1]} ended with {done.returncode}: {said}"
