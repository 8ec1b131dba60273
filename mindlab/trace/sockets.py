"""What went over each of a process's TCP sockets, as the kernel counts it, and the rank x rank bytes from it.

Linux only, without privileges: `getsockopt(TCP_INFO)` on the process's own sockets (tcp(7); the fields are
those of struct tcp_info in linux/tcp.h). A socket of one rank belongs to the socket of another whose two
addresses are the same in the other order; a socket without such a partner (a store, a web page) is left out.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from collections.abc import Sequence
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


class _Known(NamedTuple):
    fd: int
    inode: int
    family: int
    local: Address
    remote: Address


_known: list[_Known] = []
_descriptors: set[str] = set()


def read_counters() -> list[SocketCount]:
    """The counts of this process's connected TCP sockets; [] where the kernel does not tell.

    Descriptors are looked through only when their set has changed since the last call.
    """
    global _known, _descriptors
    if sys.platform != "linux":
        return []
    present = set(os.listdir("/proc/self/fd"))
    if present != _descriptors or not all(_is_same(known) for known in _known):
        _known = [known for name in present if (known := _look(int(name))) is not None]
        _descriptors = present
    return [count for known in _known if (count := _read(known)) is not None]


def _is_same(known: _Known) -> bool:
    try:
        return os.fstat(known.fd).st_ino == known.inode
    except OSError:
        return False


def _look(fd: int) -> _Known | None:
    """What stands behind a descriptor, if it is a connected TCP socket."""
    try:
        status = os.fstat(fd)
        if not stat.S_ISSOCK(status.st_mode):
            return None
        borrowed = socket.socket(fileno=fd)
    except OSError:
        return None
    try:
        if borrowed.family not in _FAMILIES or borrowed.type != socket.SOCK_STREAM:
            return None
        local, remote = borrowed.getsockname()[:2], borrowed.getpeername()[:2]
        return _Known(fd, status.st_ino, borrowed.family, local, remote)
    except OSError:  # not connected
        return None
    finally:
        borrowed.detach()


def _read(known: _Known) -> SocketCount | None:
    borrowed = socket.socket(known.family, socket.SOCK_STREAM, 0, fileno=known.fd)
    try:
        info = borrowed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ROOM)
    except OSError:
        return None
    finally:
        borrowed.detach()
    if len(info) < _RECEIVED + 8:  # kernels before 4.1
        return None
    (received,) = struct.unpack_from("Q", info, _RECEIVED)
    return SocketCount(known.local, known.remote, received, _sent(info), known.inode)


def _sent(info: bytes) -> int:
    """Bytes sent once: kernels before 4.19 tell only what was acknowledged."""
    if len(info) < _RETRANSMITTED + 8:
        (acked,) = struct.unpack_from("Q", info, _ACKED)
        return int(acked)
    sent, again = struct.unpack_from("QQ", info, _SENT)
    return int(sent - again)


class Edge(NamedTuple):
    """One direction of one connection between two ranks."""

    source: int
    to: int
    sent: SocketCount
    received: SocketCount


def edges(counts: Sequence[Sequence[SocketCount]]) -> list[Edge]:
    """Every direction of every connection between two ranks; `counts` is by rank."""
    ends = {(count.local, count.remote): (rank, count) for rank, mine in enumerate(counts) for count in mine}
    found = []
    for (local, remote), (rank, count) in ends.items():
        other = ends.get((remote, local))
        if other is not None and other[0] != rank:
            found.append(Edge(rank, other[0], count, other[1]))
    return found


def settled(before: Sequence[Sequence[SocketCount]], after: Sequence[Sequence[SocketCount]]) -> bool:
    """True once every byte that a rank sent has reached its peer: then `after` can be counted."""
    start = _starts(before)
    return all(
        edge.sent.sent - start.get(edge.sent.inode, (0, 0))[0]
        == edge.received.received - start.get(edge.received.inode, (0, 0))[1]
        or edge.sent.sent == edge.received.received
        for edge in edges(after)
    )


def _starts(before: Sequence[Sequence[SocketCount]]) -> dict[int, tuple[int, int]]:
    return {count.inode: (count.sent, count.received) for mine in before for count in mine}
