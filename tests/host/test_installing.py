"""gripperd install and uninstall into a root of their own: what is told, what is done, and that twice is once."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gripperd.config import parse_config
from gripperd.drivers.registry import driver_specs
from gripperd.host.installing import InstallError, Run, Write, carry_out, files, plan_install, plan_uninstall, shared

PROGRAM = "/opt/pipx/bin/gripperd"


def installed(root: Path, dry_run: bool = False) -> list[str]:
    """Files only: the tools are the system's."""
    told: list[str] = []
    carry_out([step for step in plan_install(root, PROGRAM) if isinstance(step, Write)], dry_run, told.append)
    return told


def tree(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def test_it_lays_out_units_rules_user_and_a_sample(tmp_path: Path) -> None:
    told = installed(tmp_path)
    assert list(tree(tmp_path)) == [
        "etc/gripperd/gripperd.toml",
        "etc/systemd/system/gripperd.service",
        "etc/systemd/system/gripperd.socket",
        "etc/sysusers.d/gripperd.conf",
        "etc/tmpfiles.d/gripperd.conf",
        "etc/udev/rules.d/71-gripperd.rules",
    ]
    assert f"ExecStart={PROGRAM} run" in (tmp_path / "etc/systemd/system/gripperd.service").read_text()
    assert told[0] == f"write {tmp_path}/etc/systemd/system/gripperd.service"
    assert not any((tmp_path / name).stat().st_mode & 0o022 for name in tree(tmp_path))


def test_twice_is_once_and_a_configuration_is_never_overwritten(tmp_path: Path) -> None:
    installed(tmp_path)
    (tmp_path / "etc/gripperd/gripperd.toml").write_text("mine")
    before = tree(tmp_path)
    told = installed(tmp_path)
    assert tree(tmp_path) == before
    assert all(line.endswith(("is so already", "is there, and is left as it is")) for line in told)


def test_a_dry_run_tells_everything_and_does_nothing(tmp_path: Path) -> None:
    told = installed(tmp_path, dry_run=True)
    assert tree(tmp_path) == {}
    assert [line.split()[0] for line in told] == ["would"] * 6


def test_the_way_back_leaves_the_configuration_unless_it_is_purged(tmp_path: Path) -> None:
    installed(tmp_path)
    carry_out(plan_uninstall(tmp_path, purge=False), False, print)
    assert list(tree(tmp_path)) == ["etc/gripperd/gripperd.toml"]
    carry_out(plan_uninstall(tmp_path, purge=False), False, print)
    carry_out(plan_uninstall(tmp_path, purge=True), False, print)
    assert tree(tmp_path) == {}
    assert not (tmp_path / "etc/gripperd").exists()


def test_another_root_is_not_this_machines_service_manager() -> None:
    steps = [*plan_install(Path("/srv/image"), PROGRAM), *plan_uninstall(Path("/srv/image"), purge=True)]
    tools = [step.command for step in steps if isinstance(step, Run)]
    assert tools == [
        ("systemd-sysusers", "--root=/srv/image", "gripperd.conf"),
        ("systemd-tmpfiles", "--root=/srv/image", "--create", "gripperd.conf"),
    ]


@pytest.mark.parametrize("folder", ["/home/me/.local/bin", "/root/.local/bin"])
def test_a_program_that_the_service_could_not_see_is_refused(folder: str) -> None:
    with pytest.raises(InstallError, match="PIPX_HOME=/opt/pipx"):
        plan_install(Path("/"), f"{folder}/gripperd")


def test_beside_the_debian_package_there_is_nothing_to_do(tmp_path: Path) -> None:
    unit = tmp_path / "usr/lib/systemd/system/gripperd.service"
    unit.parent.mkdir(parents=True)
    unit.touch()
    with pytest.raises(InstallError, match="Debian package"):
        plan_install(tmp_path, PROGRAM)


def test_a_folder_that_cannot_be_written_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "etc").touch()
    with pytest.raises(InstallError, match="Not a directory"):
        installed(tmp_path)


def test_a_tool_that_fails_or_is_missing_is_told_with_its_words() -> None:
    with pytest.raises(InstallError, match="this system has no systemd"):
        Run(("gripperd-no-such-tool",)).do()
    with pytest.raises(InstallError, match="sh -c echo no >&2; exit 3: no"):
        Run(("sh", "-c", "echo no >&2; exit 3")).do()
    assert Run(("gripperd-no-such-tool",), optional=True).done() == "gripperd-no-such-tool is not here"


def test_the_sample_is_a_good_configuration_once_its_comments_are_taken_away() -> None:
    text = (shared("systemd") / "gripperd.toml").read_text(encoding="utf-8")
    lines = [line.removeprefix("# ") for line in text.splitlines()]
    code = "\n".join(line for line in lines if line.startswith("[") or " = " in line)
    config = parse_config(tomllib.loads(code), driver_specs())
    assert [each.name for each in config.gripper] == ["left", "hand"]


def test_what_is_shipped_in_a_wheel_is_what_stands_in_the_checkout() -> None:
    """A wheel has these folders as gripperd/share."""
    project = tomllib.loads((Path(__file__).parent.parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included == {"systemd": "gripperd/share/systemd", "udev": "gripperd/share/udev"}
    assert len(list(files(Path("/"), PROGRAM))) == 6


@pytest.mark.skipif(os.getuid() != 0, reason="systemd-sysusers and systemd-tmpfiles need root for another root")
def test_the_program_as_root_into_another_root(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    command = [sys.executable, "-m", "gripperd", "install", "--root", str(tmp_path)]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        assert done.returncode == 0, done.stderr
        assert "gripperd scan" in done.stdout
    assert "gripperd:" in (tmp_path / "etc/passwd").read_text()
    assert (tmp_path / "etc/gripperd").stat().st_mode & 0o777 == 0o750
