"""Design rules that the imports can tell: pure code stays pure, and imports go one way only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "gripperd"

IMPURE = {"asyncio", "socket", "serial", "time", "structlog", "selectors", "threading", "subprocess", "aiomqtt"}
"""What pure code may not import, directly or through other modules of this package."""

PURE = (
    "gripperd.contract",
    "gripperd.modbus.transaction",
    "gripperd.modbus.statistics",
    "gripperd.drivers.values",
    "gripperd.drivers.jodell.table",
    "gripperd.drivers.jodell.registers",
    "gripperd.drivers.jodell.policy",
    "gripperd.drivers.jodell.tracking",
    "gripperd.drivers.franka_hand.table",
    "gripperd.drivers.franka_hand.wire",
    "gripperd.drivers.franka_hand.call",
    "gripperd.drivers.franka_hand.policy",
    "gripperd.drivers.franka_hand.tracking",
    "gripperd.gripper.phases",
    "gripperd.gripper.ledger",
    "gripperd.roster",
    "gripperd.transports.jsonrpc",
    "gripperd.transports.lines",
    "gripperd.transports.subscriptions",
)
"""Pure modules and packages. A new codec, table or state machine joins this list."""

LAYERS = (
    ("gripperd.contract",),
    ("gripperd.clock",),
    ("gripperd.modbus",),
    ("gripperd.drivers",),
    ("gripperd.store", "gripperd.gripper"),
    ("gripperd.roster", "gripperd.session", "gripperd.service", "gripperd.config"),
    ("gripperd.transports", "gripperd.logs", "gripperd.loop_watch", "gripperd.notify", "gripperd.activation"),
    ("gripperd.changes", "gripperd.crew", "gripperd.daemon"),
    ("gripperd.host",),
    ("gripperd.cli", "gripperd.__main__"),
)
"""From the bottom up. A module imports its own layer and those below, never one above."""

CLIENTS = ("gripperd.client", "gripperd.ctl", "gripperd.watch", "gripperd.demo")
"""They are clients like any other: of this package they see the contract and each other."""

USES_CLIENTS = {"gripperd.cli": ("gripperd.demo",), "gripperd.host.doctor": ("gripperd.client",)}
"""The program offers the demo, and asks a running daemon: both are clients of it all the same."""


def _modules(folder: Path, prefix: str) -> dict[str, Path]:
    modules = {}
    for path in sorted(folder.rglob("*.py")):
        parts = [prefix, *path.relative_to(folder).with_suffix("").parts]
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


MODULES = _modules(PACKAGE, "gripperd")
SIMULATORS = _modules(ROOT / "sim" / "gripperd_sim", "gripperd_sim")


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where code comes from"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _own(path: Path) -> set[str]:
    return {name for name in _imports(path) if name in MODULES}


def _is_in(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def _layer(module: str) -> int | None:
    return next((level for level, packages in enumerate(LAYERS) if _is_in(module, packages)), None)


@pytest.mark.parametrize("module", [name for name in MODULES if _is_in(name, PURE)])
def test_pure_code_reaches_no_io(module: str) -> None:
    """Rule 5 of the design, through all imports of this package."""
    seen: set[str] = set()
    todo = [module]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        roots = {imported.split(".")[0] for imported in _imports(MODULES[name])}
        assert not roots & IMPURE, f"{module} reaches {roots & IMPURE} through {name}"
        todo += _own(MODULES[name])


def test_the_list_of_pure_code_names_things_that_exist() -> None:
    """A renamed module must not slip out of the rule."""
    for name in PURE:
        assert any(_is_in(module, (name,)) for module in MODULES), name


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_go_downwards(module: str) -> None:
    """contract <- pure <- wire <- drivers <- gripper and store <- transports <- daemon."""
    if module == "gripperd":
        assert not _own(MODULES[module])
        return
    if _is_in(module, CLIENTS):
        allowed = ("gripperd.contract", *CLIENTS)
        strangers = {name for name in _own(MODULES[module]) if name != "gripperd" and not _is_in(name, allowed)}
        assert not strangers, f"{module} is a client, and imports {strangers}"
        return
    own_layer = _layer(module)
    assert own_layer is not None, f"{module} has no place in LAYERS"
    for imported in _own(MODULES[module]) - {"gripperd"}:
        if _is_in(imported, USES_CLIENTS.get(module, ())):
            continue
        layer = _layer(imported)
        assert layer is not None, f"{module} imports {imported}, which has no place in LAYERS"
        assert layer <= own_layer, f"{module} imports {imported} from above"


@pytest.mark.parametrize("module", sorted(SIMULATORS))
def test_the_simulators_know_nothing_of_gripperd(module: str) -> None:
    """One misreading of a manual must not hide on both sides."""
    roots = {name.split(".")[0] for name in _imports(SIMULATORS[module])}
    assert not roots & {"gripperd", "pymodbus"}


def test_no_file_is_too_long() -> None:
    """A file past 400 lines wants to be a package."""
    long = {name: count for name, path in MODULES.items() if (count := len(path.read_text().splitlines())) > 400}
    assert not long
