"""The serial port: opens it, owns its descriptor, moves bytes. It knows nothing of frames or of grippers.

Only the bus's owner task calls it. Opening runs in a thread, since a driver of an adapter may take its time;
reading and writing never block.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import termios
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import serial

from gripperd.modbus.adapter import latency_remedy

READ_BYTES = 4096
"""Most bytes taken per read; a line's kernel buffer."""

BITS_PER_CHARACTER = {"N": 10, "E": 11, "O": 11}
"""Start, eight data bits, parity if any, one stop bit."""


class PortError(Exception):
    """The port cannot be used, or was lost. The text says why and what to do."""


class Line(Protocol):
    """What a bus needs of its wire."""

    def character_s(self) -> float:
        """Time of one character on the wire [s]."""

    def describe(self) -> str:
        """Port and settings, for people who compare them with the device's."""

    def slow_remedy(self) -> str:
        """What to do where replies come late though the device is quick."""

    async def open(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        """Open the port. `received` gets every byte, `lost` the reason when the port is gone. Raises PortError."""

    def write(self, data: bytes) -> None:
        """Send. Raises PortError."""

    def close(self) -> None:
        """Give the port back; may be called at any time."""


@dataclass(frozen=True, slots=True)
class SerialSettings:
    """How to open a port. baudrate [bit/s]; parity "N", "E" or "O"; always 8 data bits and 1 stop bit."""

    port: str
    baudrate: int = 115_200
    parity: str = "N"


class SerialLine:
    """A serial port by its path."""

    def __init__(self, settings: SerialSettings) -> None:
        self.settings = settings
        self._port: serial.Serial | None = None
        self._lost: Callable[[str], None] = lambda reason: None
        self._received: Callable[[bytes], None] = lambda data: None

    def character_s(self) -> float:
        """Time of one character on the wire [s]."""
        return BITS_PER_CHARACTER[self.settings.parity] / self.settings.baudrate

    def describe(self) -> str:
        """Port and settings."""
        return f"{self.settings.port} at {self.settings.baudrate} 8{self.settings.parity}1"

    def slow_remedy(self) -> str:
        """The latency timer if it is the cause, else where to look."""
        return latency_remedy(self.settings.port) or (
            f"{self.settings.port} has no latency timer that is too long: the adapter or the device holds replies "
            "back; try another adapter, see docs/rg75.md"
        )

    async def open(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        """Open and lock the port; what it had received before is thrown away. Raises PortError."""
        opening = asyncio.ensure_future(asyncio.to_thread(_open_port, self.settings))
        try:
            port = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unwanted)
            raise
        self._port, self._received, self._lost = port, received, lost
        asyncio.get_running_loop().add_reader(port.fileno(), self._read)

    def write(self, data: bytes) -> None:
        """Send. A request fits the kernel's empty buffer at once; if not, the adapter has stopped taking bytes."""
        if self._port is None:
            raise PortError(f"{self.settings.port} is not open")
        try:
            written = os.write(self._port.fileno(), data)
        except OSError as error:
            raise PortError(f"{self.settings.port}: {error.strerror}") from error
        if written != len(data):
            raise PortError(
                f"{self.settings.port} took {written} of {len(data)} bytes: the adapter is stuck, replug it"
            )

    def close(self) -> None:
        """Give the descriptor back, so that an adapter which returns gets its old name."""
        port, self._port = self._port, None
        if port is not None:
            asyncio.get_running_loop().remove_reader(port.fileno())
            with contextlib.suppress(OSError, termios.error, serial.SerialException):
                port.reset_output_buffer()  # else the kernel may hold the close back until a stuck adapter has sent it
            port.close()

    def _read(self) -> None:
        if self._port is None:
            return
        try:
            data = os.read(self._port.fileno(), READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            data, reason = b"", f"{self.settings.port}: {error.strerror}"
        else:
            reason = f"{self.settings.port} hung up"
        if data:
            self._received(data)
        else:
            self.close()
            self._lost(reason)


def _close_unwanted(opening: asyncio.Future[serial.Serial]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _open_port(settings: SerialSettings) -> serial.Serial:
    path = settings.port
    try:
        port = serial.Serial(
            path, settings.baudrate, bytesize=8, parity=settings.parity, stopbits=1, timeout=0, exclusive=True
        )
    except serial.SerialException as error:
        raise PortError(_explain(path, error)) from error
    except (OSError, termios.error, ValueError) as error:
        raise PortError(f"{path} cannot be set to {settings.baudrate} 8{settings.parity}1: {error}") from error
    with contextlib.suppress(OSError, ValueError, NotImplementedError):  # an adapter that knows nothing of it
        port.set_low_latency_mode(True)
    try:
        fcntl.ioctl(port.fileno(), termios.TIOCEXCL)
        termios.tcflush(port.fileno(), termios.TCIOFLUSH)
    except (OSError, termios.error) as error:
        port.close()
        raise PortError(f"{path} cannot be locked and flushed: {error}") from error
    return port


def _explain(path: str, error: serial.SerialException) -> str:
    number = error.errno if error.errno is not None else _errno_in(error)
    if number == errno.ENOENT:
        return f"{path} does not exist: plug the adapter in, or correct `port`; waiting for it"
    if number in (errno.EACCES, errno.EPERM):
        return f"no permission to open {path}: add this user to the group that owns it (often dialout)"
    if number in (errno.EBUSY, errno.EAGAIN):
        return f"{path} is in use by {_holder(path)}: stop that program, one process only can own a line"
    return f"{path} cannot be opened: {error}"


def _errno_in(error: BaseException) -> int | None:
    """pyserial wraps the reason of a failed lock without its number."""
    inner = error.__context__
    while inner is not None:
        if isinstance(inner, OSError) and inner.errno is not None:
            return inner.errno
        inner = inner.__context__
    return None


def _holder(path: str) -> str:
    pid = port_holder(path)
    return "another process" if pid is None else f"process {pid}"


def port_holder(path: str) -> int | None:
    """The process that has locked a device, from the kernel's list of locks; else one that has it open, as far as this
    user may see. None: nobody that could be seen.
    """
    try:
        status = os.stat(path)
        wanted = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        with open("/proc/locks", encoding="ascii") as locks:
            for entry in locks:
                fields = entry.split()
                if "FLOCK" in fields and wanted in fields:
                    return int(fields[fields.index(wanted) - 1])
    except OSError:
        return None
    return next((pid for pid in _pids() if _has_open(pid, os.path.realpath(path))), None)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid()]


def _has_open(pid: int, device: str) -> bool:
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{number}") == device for number in os.listdir(f"/proc/{pid}/fd"))
    except OSError:  # it has ended, or is another user's
        return False
