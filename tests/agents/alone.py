"""Run one agent where there is no network but loopback, and count what it tried to reach beyond.

unshare --net python -m agents.alone NAME SCRIPTS PROMPT FOLDER
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import socket
import struct
import sys
from dataclasses import asdict
from pathlib import Path

from support.installed import run_bare

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1


def raise_loopback() -> None:
    """What `ip link set lo up` does, where there may be no `ip`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack("16sh", b"lo", 0) + bytes(14))
        (flags,) = struct.unpack_from("h", asked, 16)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | IFF_UP) + bytes(14))


def interfaces() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def unrouted() -> int:
    """How often something in this namespace wanted to reach an address to which no way leads."""
    names, values = (line.split() for line in Path("/proc/net/snmp").read_text().splitlines()[:2])
    tried = int(values[names.index("OutNoRoutes")])
    newer = Path("/proc/net/snmp6")
    if newer.exists():
        counters = dict(line.split() for line in newer.read_text().splitlines())
        tried += int(counters.get("Ip6OutNoRoutes", 0))
    return tried


def try_to_leave() -> None:
    """One attempt of our own, which proves that attempts are counted."""
    with socket.socket() as leaving, contextlib.suppress(OSError):
        leaving.connect(("192.0.2.1", 443))


if __name__ == "__main__":
    raise_loopback()
    name, scripts, prompt, folder = sys.argv[1:]
    ran = run_bare(name, json.loads(scripts), prompt, Path(folder))
    tried = unrouted()
    try_to_leave()
    told = {"interfaces": interfaces(), "tried": tried, "counted": unrouted() - tried, "ran": asdict(ran)}
    sys.stdout.write(json.dumps(told))
