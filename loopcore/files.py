"""Result files: written whole or not at all.

A file appears under its name only when all of it is on the disk, so that an interruption or a full
disk leaves the older file, or none, and never half of one.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from loopcore.errors import EnvironmentFault

# Where every command writes, unless `--out` says otherwise.
DEFAULT_FOLDER = "loopcore-out"


def write_whole(path: Path, data: bytes) -> None:
    """Put a file in place, making its folder; it holds all of `data`, or is as it was before.

    Raises EnvironmentFault naming the file when it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            # Temporary files are private; a result is as readable as any file of this user.
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise EnvironmentFault(f"cannot write {path}: {error.strerror or error}") from None


def _umask() -> int:
    """Return the process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
