"""The configuration: TOML -> checked models. A key that is not known is an error that names the nearest valid one.

Everything that can be found wrong without touching a device is found here, all at once, each with the place in the
file, what was given and what would be valid.
"""

from __future__ import annotations

import difflib
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gripperd.contract import GripperdError
from gripperd.drivers.base import GripperConfig
from gripperd.drivers.spec import DriverSpec

DEFAULT_SOCKET = "/run/gripperd/gripperd.sock"
SECTIONS = ("daemon", "mqtt", "bus", "gripper")
MAX_SOCKET_PATH_BYTES = 107
"""Longest path of a Unix socket on Linux [bytes]."""


class ConfigError(GripperdError):
    """The configuration cannot be used. `problems`: one line each."""

    def __init__(self, source: str, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(f"{source}: {problem}" for problem in self.problems))


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DaemonConfig(_Section):
    """[daemon]"""

    socket: str = DEFAULT_SOCKET
    socket_mode: str = Field("0660", pattern=r"^0?[0-7]{3}$")
    """Permissions of the socket, octal."""
    socket_group: str | None = None
    """Group of the socket; None: the daemon's own."""
    command_users: tuple[str, ...] | None = None
    """Users that may command, by name or number; absent like command_groups: whoever may open the socket."""
    command_groups: tuple[str, ...] | None = None
    """Groups whose members may command, by name or number."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    max_clients: int = Field(256, gt=0)
    """Connections at a time."""
    client_buffer_bytes: int = Field(262_144, ge=65_536)
    """What may wait for one slow reader [bytes] before it loses states."""
    stall_limit_s: float = Field(0.02, gt=0)
    """A longer stall of the event loop [s] is counted, and logged with its cause."""


class MqttConfig(_Section):
    """[mqtt]; absent: MQTT off."""

    host: str = "localhost"
    port: int = Field(1883, gt=0, lt=65_536)
    prefix: str = Field("gripperd", pattern=r"^[^+#\x00]+$")
    host_id: str | None = None
    """Second level of the topics; None: the host's name."""
    commands: bool = False
    username: str | None = None
    password_file: str | None = None
    """File with the password, read at each connection."""
    password_credential: str | None = Field(None, pattern=r"^[A-Za-z0-9._-]+$")
    """Name of a systemd credential with the password."""
    tls: bool = False
    ca_file: str | None = None
    """Who signs the broker's certificate, PEM; None: the system's authorities."""
    cert_file: str | None = None
    """This client's certificate, PEM."""
    key_file: str | None = None
    """Its key, PEM, without a password; None: it is in cert_file."""
    discovery: bool = False
    """Tell Home Assistant of every gripper."""
    discovery_prefix: str = Field("homeassistant", pattern=r"^[^+#\x00]+$")
    state_rate_hz: float = Field(10.0, gt=0, le=1000)
    """At most this many states per second and gripper [Hz]; the latest wins."""
    state_expiry_s: int = Field(5, gt=0)
    """Message expiry of a state [s]."""
    keepalive_s: int = Field(10, gt=0)
    """MQTT keep-alive [s]: a broker that vanished is noticed within twice this time."""
    timeout_s: float = Field(5.0, gt=0)
    """A connect or a publish that the broker does not acknowledge in this time [s] means that it is gone."""
    reconnect_max_s: float = Field(10.0, gt=0)
    """Longest pause between two tries to connect [s]."""


class BusConfig(_Section):
    """[[bus]]: one serial line."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    port: str = Field(min_length=1)
    baudrate: int = Field(115_200, ge=1_200, le=4_000_000)
    parity: Literal["N", "E", "O"] = "N"
    response_timeout_s: float = Field(0.1, gt=0, le=5)
    """How long a reply may take, beside its time on the wire [s]."""
    turnaround_s: float = Field(0.0, ge=0, le=1)
    """Least pause before each request [s]; never less than 3.5 characters."""
    resync_quiet_s: float = Field(0.02, gt=0, le=1)
    """After a damaged exchange the line must be silent this long [s]; more than an adapter's 16 ms latency timer."""
    resync_limit_s: float = Field(0.2, gt=0, le=5)
    """A line that never falls silent is written to after this time [s], so that a stop still goes out."""
    late_reply_limit_s: float = Field(5.0, ge=0, le=60)
    """How late a reply can still come [s]."""
    reopen_delay_s: float = Field(0.2, gt=0, le=60)
    """Pause between two tries to open the port [s]."""


@dataclass(frozen=True, slots=True)
class Config:
    """The whole file."""

    daemon: DaemonConfig = field(default_factory=DaemonConfig)
    mqtt: MqttConfig | None = None
    bus: tuple[BusConfig, ...] = ()
    gripper: tuple[GripperConfig, ...] = ()

    @property
    def names(self) -> list[str]:
        """Of the grippers."""
        return [each.name for each in self.gripper]


def load_config(path: Path, drivers: Mapping[str, DriverSpec]) -> Config:
    """Read and check a file. Raises ConfigError."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), [f"is not TOML: {error}"]) from error
    return parse_config(raw, drivers, str(path))


def parse_config(raw: Mapping[str, Any], drivers: Mapping[str, DriverSpec], source: str = "configuration") -> Config:
    """Check a parsed file. Raises ConfigError with every problem that was found."""
    problems: list[str] = []
    sections: dict[str, Any] = {}
    for key, value in raw.items():
        if key in ("bus", "gripper"):
            if not (isinstance(value, list) and all(isinstance(entry, dict) for entry in value)):
                problems.append(f"{key} is a list of tables: write [[{key}]]")
            elif key == "bus":
                sections[key] = _parse_all(problems, "bus", value, lambda entry: BusConfig)
            else:
                sections[key] = _parse_all(
                    problems, "gripper", value, lambda entry: _model_of(entry, drivers, problems)
                )
        elif key == "daemon":
            sections[key] = _parse(problems, "[daemon]", DaemonConfig, value)
        elif key == "mqtt":
            sections[key] = _parse(problems, "[mqtt]", MqttConfig, value)
        else:
            problems.append(f"[{key}] is not a section{_nearest(key, SECTIONS)}")
    if not problems:
        config = Config(**sections)
        problems = _cross_check(config)
        if not problems:
            return config
    raise ConfigError(source, problems)


_ModelOf = Callable[[Mapping[str, Any]], type[BaseModel] | None]


def _model_of(
    entry: Mapping[str, Any], drivers: Mapping[str, DriverSpec], problems: list[str]
) -> type[BaseModel] | None:
    name = entry.get("driver")
    if isinstance(name, str) and name in drivers:
        return drivers[name].config
    given = "has no driver" if name is None else f"driver = {name!r} is not known{_nearest(str(name), drivers)}"
    problems.append(f"[[gripper]] {entry.get('name', '')!r}: {given}; valid: {', '.join(sorted(drivers))}")
    return None


def _parse_all(problems: list[str], key: str, entries: list[Any], model_of: _ModelOf) -> tuple[Any, ...]:
    parsed = []
    for number, entry in enumerate(entries, 1):
        model = model_of(entry)
        if model is not None:
            name = entry.get("name")
            parsed.append(
                _parse(problems, f"[[{key}]] {name!r}" if name else f"[[{key}]] number {number}", model, entry)
            )
    return tuple(parsed)


def _parse(problems: list[str], place: str, model: type[BaseModel], value: object) -> BaseModel | None:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for detail in error.errors():
            key = ".".join(str(part) for part in detail["loc"])
            if detail["type"] == "extra_forbidden":
                problems.append(f"{place}: {key} is not a key{_nearest(key, model.model_fields)}")
            elif detail["type"] == "missing":
                problems.append(f"{place}: {key} is missing")
            else:
                problems.append(f"{place}: {key} = {detail['input']!r}: {detail['msg']}")
    return None


def _nearest(given: str, valid: Iterable[str]) -> str:
    near = difflib.get_close_matches(given, list(valid), 1)
    return f": did you mean {near[0]!r}?" if near else f"; valid: {', '.join(sorted(valid))}"


def _cross_check(config: Config) -> list[str]:
    problems = [f"two [[bus]] are named {name!r}" for name in _twice(bus.name for bus in config.bus)]
    problems += [f"two [[bus]] use the port {port!r}" for port in _twice(bus.port for bus in config.bus)]
    problems += [f"two [[gripper]] are named {name!r}" for name in _twice(each.name for each in config.gripper)]
    addresses = [(getattr(each, "address", None), getattr(each, "port", None)) for each in config.gripper]
    given = [f"{address}:{port}" for address, port in addresses if address is not None]
    problems += [f"two [[gripper]] use the address {address}" for address in _twice(given)]
    buses = {bus.name for bus in config.bus}
    units: dict[tuple[str, int], str] = {}
    for each in config.gripper:
        bus, unit = getattr(each, "bus", None), getattr(each, "unit", None)
        if bus is None:
            continue
        if bus not in buses:
            known = ", ".join(sorted(buses)) or "none"
            problems.append(f"[[gripper]] {each.name!r}: there is no [[bus]] named {bus!r}; configured: {known}")
        other = units.setdefault((bus, unit or 0), each.name)
        if other != each.name:
            problems.append(f"[[gripper]] {other!r} and {each.name!r} are both unit {unit} on bus {bus!r}")
    if not config.gripper:
        problems.append("no [[gripper]] is configured")
    if len(config.daemon.socket.encode()) > MAX_SOCKET_PATH_BYTES:
        problems.append(f"[daemon]: socket is longer than {MAX_SOCKET_PATH_BYTES} bytes: {config.daemon.socket}")
    return problems + (_check_mqtt(config.mqtt) if config.mqtt is not None else [])


def _check_mqtt(mqtt: MqttConfig) -> list[str]:
    problems = []
    given = [key for key in ("ca_file", "cert_file", "key_file") if getattr(mqtt, key) is not None]
    if given and not mqtt.tls:
        problems.append(f"[mqtt]: {given[0]} without tls: set tls = true (and port, usually 8883)")
    if mqtt.key_file is not None and mqtt.cert_file is None:
        problems.append("[mqtt]: key_file without cert_file")
    passwords = [key for key in ("password_file", "password_credential") if getattr(mqtt, key) is not None]
    if len(passwords) > 1:
        problems.append("[mqtt]: password_file and password_credential: give one of them")
    if passwords and mqtt.username is None:
        problems.append(f"[mqtt]: {passwords[0]} without username")
    return problems


def _twice(names: Iterable[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)
