"""What Linux tells of a USB serial adapter: whether it holds replies back, and the exact remedy.

FTDI's chips hand received bytes over when 62 have come or their latency timer is over, 16 ms by default: a short reply
waits for the timer. The kernel shows it in sysfs, where root may write it; a program that opens the port may ask for
low latency, which sets it to 1 ms (ftdi_sio, ASYNC_LOW_LATENCY).
"""

from __future__ import annotations

from pathlib import Path

SYS_TTY = Path("/sys/class/tty")
LONGEST_LATENCY_MS = 2
"""A longer latency timer [ms] is worth a word."""


def latency_file(port: str, sys_tty: Path = SYS_TTY) -> Path:
    """Where the latency timer of a port would be; its name in /dev may be a link."""
    return sys_tty / Path(port).resolve().name / "device" / "latency_timer"


def latency_ms(port: str, sys_tty: Path = SYS_TTY) -> int | None:
    """The latency timer [ms]; None: the adapter has none."""
    try:
        return int(latency_file(port, sys_tty).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def latency_remedy(port: str, sys_tty: Path = SYS_TTY) -> str:
    """What to do about it; "" if there is nothing to be done."""
    found_ms = latency_ms(port, sys_tty)
    if found_ms is None or found_ms <= LONGEST_LATENCY_MS:
        return ""
    file = latency_file(port, sys_tty)
    return (
        f"the latency timer of {port} is {found_ms} ms: `echo 1 | sudo tee {file}` for now, "
        "`sudo gripperd install` for good (its udev rule sets it at each plug)"
    )
