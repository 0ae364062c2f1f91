"""Become a program for which the kernel has no `mount_setattr`, as before Linux 5.12: `old_kernel.py argv…`."""

from __future__ import annotations

import ctypes
import os
import sys

_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _NOT_IMPLEMENTED = 0x7FFF0000, 0x00050000 | 38
_MOUNT_SETATTR = 442
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _FILTER = 22, 38, 2


class _Rule(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("k", ctypes.c_uint))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("rules", ctypes.POINTER(_Rule)))


def main(argv: list[str]) -> None:
    rules = (_Rule * 4)(
        _Rule(_LOAD, 0, 0, 0),  # the number of the system call
        _Rule(_IF_EQUAL, 0, 1, _MOUNT_SETATTR),
        _Rule(_RETURN, 0, 0, _NOT_IMPLEMENTED),
        _Rule(_RETURN, 0, 0, _ALLOW),
    )
    libc = ctypes.CDLL(None, use_errno=True)
    for words in (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _FILTER, ctypes.byref(_Program(4, rules)), 0, 0),
    ):
        if libc.prctl(*words):
            sys.exit(os.strerror(ctypes.get_errno()))
    os.execvp(argv[0], argv)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
