"""A Debian in a folder, and systemd booted in it. Never on this machine's own root: its first boot cleans up there.

Rules
1. The folder is made for the test and belongs to it. Nothing of this machine is mounted into it but, read only, what
   pip needs here to find packages.
2. It runs in control groups of its own, which are removed.
3. What does not work here at all (no namespaces, no mirror) skips the tests with the reason that was given.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

SUITE = "bookworm"
PACKAGES = "systemd,systemd-sysv,dbus,udev,ca-certificates,python3,python3-venv,python3-systemd"
MAKE_LIMIT_S = 400.0
"""Longest time for the root folder [s]; 45 s on a quiet machine with a near mirror."""
BOOT_LIMIT_S = 60.0
CALL_LIMIT_S = 60.0
NSPAWN = ("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--console=pipe")
GROUPS = ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup")
"""Where control groups may be; those that take a group get one."""


class CallError(AssertionError):
    """A command in the machine failed."""


def make_root(root: Path) -> None:
    """A minimal Debian. Skips where that is not possible here."""
    for tool in ("debootstrap", "systemd-nspawn", "nsenter"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not here: apt-get install debootstrap systemd-container")
    made = subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root), *_mirror()],
        capture_output=True,
        text=True,
        timeout=MAKE_LIMIT_S,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"debootstrap does not work here: {made.stdout[-300:]}{made.stderr[-300:]}")
    tried = run_in(root, "true", check=False)
    if tried.returncode:
        pytest.skip(f"systemd-nspawn does not work here: {tried.stderr[-300:]}")


def _mirror() -> list[str]:
    """Where this machine has its own packages from; without a Debian here, debootstrap's default."""
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(ORIGIN)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        timeout=CALL_LIMIT_S,
        check=False,
    )
    found = [line.split()[0] for line in told.stdout.splitlines() if line.split()[1:3] == [SUITE, "Debian"]]
    return found[:1]


def run_in(
    root: Path,
    *command: str,
    network: bool = False,
    folder: str = "/",
    check: bool = True,
    limit_s: float = CALL_LIMIT_S,
) -> subprocess.CompletedProcess[str]:
    """Run one command in the folder, without booting it. network: it may fetch packages, as this machine does."""
    options = [*(_package_access() if network else ["--private-network"]), f"--chdir={folder}"]
    done = subprocess.run(
        [*NSPAWN, "-D", str(root), *options, *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    if check and done.returncode:
        raise CallError(f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def _package_access() -> list[str]:
    """What pip is configured with on this machine, and the folders and files that it names there."""
    options = ["--resolv-conf=copy-host"]
    variables = {key: value for key, value in os.environ.items() if key.startswith("PIP_") or key.endswith("_proxy")}
    files = [path for path in ("/etc/pip.conf", "/etc/xdg/pip/pip.conf", "/etc/ssl/certs") if Path(path).exists()]
    texts = [*variables.values(), *(Path(path).read_text() for path in files if Path(path).is_file())]
    named = {found for text in texts for found in re.findall(r"(?:file://)?(/[\w./-]+)", text)}
    folders = {str(Path(name).parent) if Path(name).name == "simple" else name for name in named}
    options += [f"--bind-ro={path}" for path in sorted({*files, *folders}) if _is_safe(path)]
    return options + [f"--setenv={key}={value}" for key, value in variables.items()]


def _is_safe(path: str) -> bool:
    return Path(path).exists() and not path.startswith("/etc/ssl/certs/") and len(Path(path).parts) > 2


class Machine:
    """The folder, booted."""

    def __init__(self, root: Path, log: Path) -> None:
        self.root = root
        self.log = log
        self._groups = [Path(base) / f"gripperd-test-{os.getpid()}" for base in GROUPS if _takes_groups(base)]

    @contextlib.contextmanager
    def booted(self) -> Iterator[Machine]:
        """From systemd's start to its power-off."""
        for group in self._groups:
            group.mkdir()
        join = "".join(f"echo $$ > {group}/cgroup.procs; " for group in self._groups)
        nspawn = " ".join([*NSPAWN, "-D", str(self.root), "--boot", "--private-network"])
        with self.log.open("wb") as output:
            self._nspawn = subprocess.Popen(
                ["sh", "-c", f"{join}exec {nspawn}"], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        try:
            self._leader = self.wait_for(self._find_leader, "leader", BOOT_LIMIT_S)
            self.wait_for(self._is_up, "boot", BOOT_LIMIT_S)
            yield self
        finally:
            self._off()

    def _off(self) -> None:
        if self._nspawn.poll() is None:
            with contextlib.suppress(Exception):
                self.run("systemctl", "poweroff", check=False)
            try:
                self._nspawn.wait(BOOT_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._nspawn.kill()
                self._nspawn.wait()
        for group in self._groups:
            _remove_group(group)

    def _is_up(self) -> bool:
        told = self.run("systemctl", "is-system-running", check=False).stdout.strip()
        return told in ("running", "degraded")

    def _find_leader(self) -> str | None:
        if self._nspawn.poll() is not None:
            pytest.skip(f"systemd does not boot here: {self.log.read_text(errors='replace')[-300:]}")
        children = Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children").read_text().split()
        return children[0] if children else None

    def run(self, *command: str, check: bool = True, limit_s: float = CALL_LIMIT_S) -> subprocess.CompletedProcess[str]:
        """A command in the running machine, as root."""
        done = subprocess.run(
            ["nsenter", "-t", self._leader, "-m", "-u", "-i", "-n", "-p", "-C", *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
        )
        if check and done.returncode:
            raise CallError(f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def out(self, *command: str) -> str:
        """What a command prints."""
        return self.run(*command).stdout.strip()

    def write(self, path: str, text: str) -> None:
        """A file in the machine."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def wait_for(self, look: Callable[[], T | None], what: str, limit_s: float = 30.0) -> T:
        """Until it is there."""
        deadline_s = time.monotonic() + limit_s
        while not (found := look()):
            assert time.monotonic() < deadline_s, f"no {what} within {limit_s} s"
            time.sleep(0.05)
        return found


def _takes_groups(base: str) -> bool:
    return (Path(base) / "cgroup.procs").exists() and os.access(base, os.W_OK)


def _remove_group(group: Path) -> None:
    """It is empty of processes; its own children go first."""
    for folder, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
