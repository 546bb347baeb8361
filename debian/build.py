"""`./run package`: one Debian package with gripperd and the exact versions of requirements.lock, in dist/.

Debian's own versions of what gripperd needs are too old or not there, so they are bundled in /usr/lib/gripperd; only
python3-systemd, which has to fit the system's libsystemd, is a dependency. Compiled parts fit one minor version of
Python, which the package therefore asks for. `--output FOLDER`: where to.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
HERE = Path(__file__).parent
PROGRAMS = {
    "gripperd": "gripperd.cli",
    "gripperctl": "gripperd.ctl",
    "gripperd-sim": "gripperd_sim.cli",
}
LAUNCHER = """#!/usr/bin/python3 -I
import sys

sys.path.insert(0, "/usr/lib/gripperd")
from {module} import main

sys.exit(main())
"""
RUN_LIMIT_S = 600.0
"""Longest time that one step may take [s]; fetching the packages is the longest."""


def run(*command: str) -> str:
    """Run a tool; on failure its output is shown and the build ends."""
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
    if ended.returncode:
        sys.exit(f"build: {' '.join(command)} failed:\n{ended.stdout}{ended.stderr}")
    return ended.stdout.strip()


def closure(name: str) -> set[str]:
    """What a distribution needs at run time, without extras, by the metadata of this environment."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for text in requires(waiting.pop()) or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                needed = canonicalize_name(requirement.name)
                if needed not in found:
                    found.add(needed)
                    waiting.append(needed)
    return found


def pinned(names: set[str]) -> Iterator[str]:
    """The entries of requirements.lock for these names, with their hashes."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for entry in re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE):
        match = re.match(r"[A-Za-z0-9._-]+", entry)
        if match and canonicalize_name(match[0]) in names:
            yield re.sub(r"^\s*#.*\n", "", entry, flags=re.MULTILINE)


def bundle(target: Path, scratch: Path) -> None:
    """gripperd and what it needs, without what pip leaves for itself."""
    pip = (sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check")
    lock = scratch / "runtime.lock"
    lock.write_text("".join(pinned(closure("gripperd"))), encoding="utf-8")
    place = ("--no-deps", "--no-compile", "--target", str(target))
    run(*pip, "install", "--require-hashes", *place, "-r", str(lock))
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(scratch), str(ROOT))
    [wheel] = scratch.glob("gripperd-*.whl")
    run(*pip, "install", "--no-index", *place, str(wheel))
    shutil.rmtree(target / "bin", ignore_errors=True)
    for origin in target.glob("*.dist-info/direct_url.json"):  # a path of the machine that built it
        origin.unlink()


def lay_out(root: Path) -> None:
    """Everything beside the bundle."""
    for name, module in PROGRAMS.items():
        put(root / "usr/bin" / name, LAUNCHER.format(module=module), 0o755)
    systemd, docs = ROOT / "systemd", root / "usr/share/doc/gripperd"
    for name in ("gripperd.service", "gripperd.socket"):
        put(root / "usr/lib/systemd/system" / name, (systemd / name).read_text(encoding="utf-8"))
    put(root / "usr/lib/sysusers.d/gripperd.conf", (systemd / "sysusers.conf").read_text(encoding="utf-8"))
    put(root / "usr/lib/tmpfiles.d/gripperd.conf", (systemd / "tmpfiles.conf").read_text(encoding="utf-8"))
    put(root / "etc/gripperd/gripperd.toml", (systemd / "gripperd.toml").read_text(encoding="utf-8"))
    for rules in (ROOT / "udev").glob("*.rules"):
        put(root / "usr/lib/udev/rules.d" / rules.name, rules.read_text(encoding="utf-8"))
    for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")):
        put(docs / page.name, page.read_text(encoding="utf-8"))
    put(docs / "copyright", (HERE / "copyright").read_text(encoding="utf-8"))


def put(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def control(root: Path, version: str) -> None:
    """What dpkg wants to know."""
    folder, (major, minor) = root / "DEBIAN", sys.version_info[:2]
    size_kib = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) // 1024
    text = (
        (HERE / "control")
        .read_text(encoding="utf-8")
        .format(
            version=version,
            architecture=run("dpkg", "--print-architecture"),
            size_kib=size_kib,
            python=f"python3 (>= {major}.{minor}~), python3 (<< {major}.{minor + 1}~)",
        )
    )
    sums = [
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(root)}\n"
        for path in sorted(root.rglob("*"))
        if path.is_file()
    ]
    put(folder / "control", text)
    put(folder / "md5sums", "".join(sums))
    put(folder / "conffiles", "/etc/gripperd/gripperd.toml\n")
    for name in ("postinst", "prerm", "postrm"):
        put(folder / name, (HERE / name).read_text(encoding="utf-8"), 0o755)


def main() -> None:
    """Build it, and print its path."""
    parser = argparse.ArgumentParser(prog="./run package", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", metavar="FOLDER", help="default: dist")
    output: Path = parser.parse_args().output
    if shutil.which("dpkg-deb") is None:
        sys.exit("build: dpkg-deb is not here: build the package on Debian or Ubuntu")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    with tempfile.TemporaryDirectory() as scratch_name:
        scratch = Path(scratch_name)
        root = scratch / "root"
        bundle(root / "usr/lib/gripperd", scratch)
        lay_out(root)
        for path in (root, *root.rglob("*")):
            if path.is_dir():
                path.chmod(0o755)
        control(root, version)
        output.mkdir(parents=True, exist_ok=True)
        package = output / f"gripperd_{version}_{run('dpkg', '--print-architecture')}.deb"
        os.environ.setdefault("SOURCE_DATE_EPOCH", run("git", "log", "-1", "--format=%ct") or "0")
        run("dpkg-deb", "--root-owner-group", "--build", str(root), str(package))
    print(package)


if __name__ == "__main__":
    main()
