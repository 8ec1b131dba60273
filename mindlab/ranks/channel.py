"""Messages and file descriptors over a socket pair; nothing listens, no address exists.

Both ends belong to processes that this package started, so a pickled message never comes from a stranger.
"""

from __future__ import annotations

import array
import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any

_HEAD = struct.Struct("<QI")
_DESCRIPTORS = 253  # the kernel's limit for one message (SCM_MAX_FD)


class Closed(Exception):
    """The other end is gone."""


class Channel:
    """One end of a socket pair. `send` and `receive` move a Python object and descriptors."""

    def __init__(self, sock: socket.socket, patience: float | None = None) -> None:
        """`patience`: seconds that one message may take once it has begun; None waits for ever."""
        self.sock = sock
        sock.settimeout(patience)

    @classmethod
    def pair(cls, patience: float) -> tuple[Channel, socket.socket]:
        """This process's end as a Channel, and the other process's end as a bare socket."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(ours, patience), theirs

    def fileno(self) -> int:
        return self.sock.fileno()

    def close(self) -> None:
        self.sock.close()

    def send(self, message: Any, fds: Sequence[int] = ()) -> None:
        """Send `message` (pickled) and copies of `fds`; raises Closed if the other end is gone."""
        body = pickle.dumps(message, protocol=5)
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.sock.sendmsg([_HEAD.pack(len(body), len(fds))], ancillary)
            self.sock.sendall(body)
        except (OSError, ValueError) as error:
            raise Closed(str(error)) from error

    def receive(self) -> tuple[Any, list[int]]:
        """The next message and its descriptors; raises Closed at the end of the stream."""
        head, fds = self._head()
        size, _ = _HEAD.unpack(head)
        return pickle.loads(self._exactly(size)), fds

    def _head(self) -> tuple[bytes, list[int]]:
        head, fds = b"", array.array("i")
        while len(head) < _HEAD.size:
            try:
                part, ancillary, _, _ = self.sock.recvmsg(
                    _HEAD.size - len(head), socket.CMSG_SPACE(_DESCRIPTORS * fds.itemsize)
                )
            except OSError as error:
                raise Closed(str(error)) from error
            for level, kind, data in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
            if not part:
                raise Closed("end of stream")
            head += part
        return head, list(fds)

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view, filled = memoryview(data), 0
        while filled < size:
            try:
                got = self.sock.recv_into(view[filled:])
            except OSError as error:
                raise Closed(str(error)) from error
            if not got:
                raise Closed("end of stream")
            filled += got
        return data
