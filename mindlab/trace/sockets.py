"""What went over each of a process's TCP sockets, as the kernel counts it; `meter` makes a matrix of it.

Linux only, without privileges: `getsockopt(TCP_INFO)` on the process's own sockets (tcp(7); the fields are
those of struct tcp_info in linux/tcp.h).
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from typing import NamedTuple

_ROOM = 256
_ACKED, _RECEIVED, _SENT, _RETRANSMITTED = 120, 128, 200, 208
_FAMILIES = {socket.AF_INET, socket.AF_INET6}

Address = tuple[str, int]


class SocketCount(NamedTuple):
    """One connected TCP socket: its two ends, and the bytes of its whole life."""

    local: Address
    remote: Address
    received: int
    sent: int
    """Without what was sent again."""
    inode: int
    """The kernel's number of the socket: addresses may be used again, this is not."""
    accepted: bool = False
    """The other end connected to this one."""


class _Known(NamedTuple):
    fd: int
    inode: int
    family: int
    local: Address
    remote: Address
    accepted: bool = False


_known: list[_Known] = []
_present: list[tuple[int, int]] = []


def read_counters() -> list[SocketCount]:
    """The counts of this process's connected TCP sockets; [] where the kernel does not tell.

    What stands behind each descriptor is looked up only when the set of open sockets has changed.
    """
    global _known, _present
    if sys.platform != "linux":
        return []
    present = _sockets()
    if present != _present:
        found = [known for fd, inode in present if (known := _look(fd, inode)) is not None]
        ports = {known.local[1] for known in found if not known.remote[0]}
        _known = [known._replace(accepted=known.local[1] in ports) for known in found if known.remote[0]]
        _present = present
    return [count for known in _known if (count := _read(known)) is not None]


def _sockets() -> list[tuple[int, int]]:
    """(descriptor, inode) of every open socket; gloo's threads may close some at any moment."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            status = os.fstat(int(name))
        except OSError:
            continue
        if stat.S_ISSOCK(status.st_mode):
            found.append((int(name), status.st_ino))
    return found


def _look(fd: int, inode: int) -> _Known | None:
    """What stands behind a descriptor, if it is a TCP socket that is connected or (no remote end) listens."""
    try:
        borrowed = socket.socket(fileno=fd)
    except OSError:
        return None
    try:
        if borrowed.family not in _FAMILIES or borrowed.type != socket.SOCK_STREAM:
            return None
        local, remote = borrowed.getsockname()[:2], ("", 0)
        if not borrowed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            remote = borrowed.getpeername()[:2]
        return _Known(fd, inode, borrowed.family, local, remote)
    except OSError:  # not connected
        return None
    finally:
        borrowed.detach()


def _read(known: _Known) -> SocketCount | None:
    try:
        borrowed = socket.SocketType(known.family, socket.SOCK_STREAM, 0, known.fd)
    except OSError:  # closed meanwhile
        return None
    try:
        info = borrowed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ROOM)
    except OSError:
        return None
    finally:
        borrowed.detach()
    if len(info) < _RECEIVED + 8:  # kernels before 4.1
        return None
    (received,) = struct.unpack_from("Q", info, _RECEIVED)
    return SocketCount(known.local, known.remote, received, _sent(info), known.inode, known.accepted)


def _sent(info: bytes) -> int:
    """Bytes sent once: kernels before 4.19 tell only what was acknowledged."""
    if len(info) < _RETRANSMITTED + 8:
        (acked,) = struct.unpack_from("Q", info, _ACKED)
        return int(acked)
    sent, again = struct.unpack_from("QQ", info, _SENT)
    return int(sent - again)
