"""Become another OS user, then run a program. PostgreSQL refuses to run as root.

Belongs here: the few system calls between "we are root" and ``exec``. It runs as a script of its
own (``python -I -S drop_privileges.py UID GID CAPABILITY PROGRAM ARG...``) because calling these
between fork and exec of a process that has threads can deadlock, and Dagster's processes have
threads.
Does not belong here: choosing the user or the capability, or any import from this package.

Linux only where CAPABILITY is not 0. With a capability the new user may pass closed folders (a home
below ``/root`` or in a ``mktemp -d``) without anybody having to open those folders to the world.
"""

from __future__ import annotations

import ctypes
import os
import sys

_PR_SET_KEEPCAPS = 8
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAPABILITY_VERSION_3 = 0x20080522


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def _check(result: int, call: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{call}: {os.strerror(code)}")


def become(uid: int, gid: int, capability: int) -> None:
    """Give up root for ``uid`` and keep at most one capability (0: none), also across ``exec``."""
    libc = ctypes.CDLL(None, use_errno=True) if capability else None
    if libc is not None:
        _check(libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0), "keep capabilities")
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if libc is not None:
        mask = 1 << capability
        sets = (_Data * 2)(_Data(mask, mask, mask), _Data(0, 0, 0))
        header = _Header(_CAPABILITY_VERSION_3, 0)
        _check(libc.capset(ctypes.byref(header), ctypes.byref(sets)), "set capabilities")
        _check(
            libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability, 0, 0),
            "raise ambient capability",
        )


if __name__ == "__main__":
    become(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    # The folders that the program was started in and will use must be open to the new user: a probe
    # that only ran the program would not notice.
    os.stat(os.path.join(sys.argv[4], "."))  # noqa: PTH116, PTH118  -I -S start-up stays short without pathlib
    os.chdir(sys.argv[4])
    os.execv(sys.argv[5], sys.argv[5:])  # noqa: S606  no shell is the point
