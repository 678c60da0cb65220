"""Making what was written survive the loss of power.

Belongs here: handing files and folders to the disk. Does not belong here: what they hold.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def sync(path: Path) -> None:
    """Make one file, or the names in one folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_durably(aside: Path, target: Path) -> None:
    """Put a finished file in the place of another: old or new after a crash, never a mixture."""
    sync(aside)
    aside.replace(target)
    # A rename is durable only when the folder that records it is.
    sync(target.parent)


def sync_tree(folder: Path) -> None:
    """Make a finished tree durable at once: a file system commits 200 files together far sooner than one by one."""
    # What is no file and no folder, such as a socket, holds nothing.
    inside = (path for path in folder.rglob("*") if path.is_file() or path.is_dir())
    with ThreadPoolExecutor(max_workers=8) as pool:
        for _ in pool.map(sync, [folder, *inside]):
            pass
