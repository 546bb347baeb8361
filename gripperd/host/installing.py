"""`gripperd install` and `uninstall`: what is laid out on a host, as steps that can be shown before they are done.

Rules
1. A step that is done already is told and not done again: installing twice is the same as once.
2. The configuration is written if there is none, and never changed. Files of the units are ours: changes belong into
   drop-ins (`systemctl edit gripperd`).
3. Into another root (an image) only files are laid out: nothing is asked of this machine's service manager.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gripperd.contract import GripperdError

RUN_LIMIT_S = 60.0
"""Longest time that one of the system's tools may take [s]."""
UNITS = ("gripperd.service", "gripperd.socket")
DEFAULT_PROGRAM = "/usr/bin/gripperd"
"""As it stands in gripperd.service."""
HIDDEN = ("/home", "/root", "/run/user")
"""Folders that the service does not see (ProtectHome=)."""

Tell = Callable[[str], None]


class InstallError(GripperdError):
    """It cannot be installed, or a step has failed."""


def shared(kind: str) -> Path:
    """The folder `systemd` or `udev`: in an installed package, or of the checkout."""
    package = Path(__file__).parent.parent
    packaged = package / "share" / kind
    return packaged if packaged.is_dir() else package.parent / kind


@dataclass(frozen=True, slots=True)
class Write:
    """A file. keep: one that is there is left alone."""

    path: Path
    content: str
    keep: bool = False

    def __str__(self) -> str:
        return f"write {self.path}"

    def done(self) -> str:
        """Why there is nothing to do, or ""."""
        if not self.path.exists():
            return ""
        if self.keep:
            return "is there, and is left as it is"
        return "is so already" if self.path.read_text(encoding="utf-8") == self.content else ""

    def do(self) -> None:
        """Whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_name(f".{self.path.name}.new")
        fresh.write_text(self.content, encoding="utf-8")
        fresh.chmod(0o644)
        fresh.replace(self.path)


@dataclass(frozen=True, slots=True)
class Remove:
    """A file or a folder of ours."""

    path: Path

    def __str__(self) -> str:
        return f"remove {self.path}"

    def done(self) -> str:
        """Why there is nothing to do, or ""."""
        return "" if self.path.exists() else "is not there"

    def do(self) -> None:
        """With all that is in it."""
        if self.path.is_dir():
            shutil.rmtree(self.path)
        else:
            self.path.unlink()


@dataclass(frozen=True, slots=True)
class Run:
    """One of the system's tools. optional: that it is missing is no failure."""

    command: tuple[str, ...]
    optional: bool = False

    def __str__(self) -> str:
        return f"run {' '.join(self.command)}"

    def done(self) -> str:
        """Why there is nothing to do, or ""."""
        return f"{self.command[0]} is not here" if self.optional and shutil.which(self.command[0]) is None else ""

    def do(self) -> None:
        """Raises InstallError with what it said."""
        try:
            ended = subprocess.run(self.command, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
        except FileNotFoundError:
            raise InstallError(f"{self.command[0]} is not here: this system has no systemd") from None
        except subprocess.TimeoutExpired:
            raise InstallError(f"{self.command[0]} did not end within {RUN_LIMIT_S:.0f} s") from None
        if ended.returncode:
            raise InstallError(f"{' '.join(self.command)}: {(ended.stderr or ended.stdout).strip()}")


Step = Write | Remove | Run


def files(root: Path, program: str) -> Iterator[Write]:
    """Everything that is written. program: what the service runs."""
    etc, systemd, udev = root / "etc", shared("systemd"), shared("udev")
    for name in UNITS:
        text = (systemd / name).read_text(encoding="utf-8")
        yield Write(etc / "systemd/system" / name, text.replace(DEFAULT_PROGRAM, program))
    yield Write(etc / "sysusers.d/gripperd.conf", (systemd / "sysusers.conf").read_text(encoding="utf-8"))
    yield Write(etc / "tmpfiles.d/gripperd.conf", (systemd / "tmpfiles.conf").read_text(encoding="utf-8"))
    for rules in sorted(udev.glob("*.rules")):
        yield Write(etc / "udev/rules.d" / rules.name, rules.read_text(encoding="utf-8"))
    sample = (systemd / "gripperd.toml").read_text(encoding="utf-8")
    yield Write(etc / "gripperd/gripperd.toml", sample, keep=True)


def plan_install(root: Path, program: str) -> list[Step]:
    """All steps of an installation. Raises InstallError where it could not work."""
    here = root == Path("/")
    for folder in ("usr/lib/systemd/system", "lib/systemd/system"):
        if (root / folder / UNITS[0]).exists():
            raise InstallError("the Debian package gripperd is installed, which has all of this: nothing to do")
    if here and (hidden := [folder for folder in HIDDEN if Path(program).resolve().is_relative_to(folder)]):
        raise InstallError(
            f"the service could not see {program}, since {hidden[0]} is hidden from it: install gripperd for the whole "
            "system, for example with PIPX_HOME=/opt/pipx PIPX_BIN_DIR=/usr/local/bin pipx install gripperd"
        )
    place = () if here else (f"--root={root}",)
    steps: list[Step] = [*files(root, program)]
    steps.append(Run(("systemd-sysusers", *place, "gripperd.conf")))
    steps.append(Run(("systemd-tmpfiles", *place, "--create", "gripperd.conf")))
    return steps + (_reload() if here else [])


def plan_uninstall(root: Path, purge: bool) -> list[Step]:
    """All steps back. purge: the configuration goes too."""
    here = root == Path("/")
    ours = [step.path for step in files(root, DEFAULT_PROGRAM) if not step.keep]
    steps: list[Step] = []
    if here and any((root / "etc/systemd/system" / name).exists() for name in UNITS):
        steps.append(Run(("systemctl", "disable", "--now", *UNITS)))
    steps += [Remove(path) for path in ours]
    if purge:
        steps.append(Remove(root / "etc/gripperd"))
    return steps + (_reload() if here else [])


def _reload() -> list[Step]:
    return [
        Run(("systemctl", "daemon-reload")),
        Run(("udevadm", "control", "--reload"), optional=True),
        Run(("udevadm", "trigger", "--subsystem-match=tty", "--action=change"), optional=True),
    ]


def carry_out(steps: Sequence[Step], dry_run: bool, tell: Tell) -> None:
    """Do the steps, or tell what they would be. Raises InstallError; what was done before stays."""
    for step in steps:
        reason = step.done()
        if reason:
            tell(f"{step}: {reason}")
        elif dry_run:
            tell(f"would {step}")
        else:
            tell(str(step))
            try:
                step.do()
            except OSError as error:
                hint = "; type it with sudo" if isinstance(error, PermissionError) and os.geteuid() else ""
                raise InstallError(f"{step}: {error.strerror}{hint}") from error


def this_program() -> str:
    """The absolute path of the gripperd that runs."""
    found = shutil.which("gripperd") if Path(sys.argv[0]).name != "gripperd" else sys.argv[0]
    if found is None:
        raise InstallError("there is no program gripperd in PATH: install the package first")
    return str(Path(found).absolute())
