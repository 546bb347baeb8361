"""`gripperd doctor`: what is wrong between the configuration and the grippers, and what to do about it.

Rules
1. It opens no port and moves nothing. What the daemon knows it asks the daemon; a stop is sent only if it is asked for.
2. Every finding that is not good says what to type or where to look.
3. Every check has its time limit; one that fails to run is a finding, not the end of the others.
"""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
import shutil
import stat
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import aiomqtt

from gripperd.client import Client
from gripperd.client.asyncio_client import Gripper
from gripperd.config import BusConfig, Config, ConfigError, MqttConfig, load_config
from gripperd.contract import Activation, GripperdError, Link
from gripperd.drivers.registry import driver_specs
from gripperd.host.scan import adapters
from gripperd.modbus.adapter import latency_ms, latency_remedy
from gripperd.modbus.line import port_holder
from gripperd.transports.mqtt.security import SecurityError, load_security
from gripperd.transports.peers import read_credentials

ASK_LIMIT_S = 3.0
"""How long the daemon or the broker may take to answer [s]."""
SERVICE_USER = "gripperd"
OLD_STATE_S = 1.0
"""A state that is older [s] means that its owner does not get its turn."""
SLOW_STOP_S = 0.1
"""A stop that takes longer to be acknowledged [s] is worth a look."""
EARLIEST_YEAR = 2024
"""A clock before it was never set."""


class Level(Enum):
    """How good a finding is."""

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. remedy: for those that are not good."""

    level: Level
    about: str
    text: str
    remedy: str = ""


def ok(about: str, text: str) -> Finding:
    """Nothing to do."""
    return Finding(Level.OK, about, text)


async def examine(path: Path, stop: bool) -> AsyncIterator[Finding]:
    """All checks. stop: send one to each gripper, and time it."""
    try:
        config = await asyncio.to_thread(load_config, path, driver_specs())
    except ConfigError as error:
        for problem in error.problems:
            yield Finding(Level.FAILED, "configuration", f"{path}: {problem}", "correct it; see docs/configuration.md")
        return
    yield ok("configuration", f"{path}: {len(config.gripper)} gripper(s), {len(config.bus)} bus(es)")
    daemon = await _daemon_pid(config)
    for bus in config.bus:
        for finding in await asyncio.to_thread(_examine_port, bus, daemon):
            yield finding
    if config.mqtt is not None:
        yield await examine_broker(config.mqtt)
    yield await examine_clock()
    async for finding in examine_daemon(config, stop):
        yield finding


def _examine_port(bus: BusConfig, daemon: int | None) -> list[Finding]:
    return list(examine_port(bus, daemon))


def examine_port(bus: BusConfig, daemon: int | None) -> Iterator[Finding]:
    """A serial port: is it there, may it be opened, who has it, how long does it hold replies back? daemon: its pid."""
    about, port = f"bus {bus.name}", Path(bus.port)
    if not port.exists():
        there = ", ".join(adapter.name for adapter in adapters()) or "none"
        remedy = f"plug the adapter in, or correct `port`; adapters that are there: {there}"
        yield Finding(Level.FAILED, about, f"{port} does not exist", remedy)
        return
    if port.name.startswith(("ttyUSB", "ttyACM")) and not port.is_symlink():
        remedy = "use its name in /dev/gripper (`sudo gripperd install` makes it) or /dev/serial/by-id"
        yield Finding(Level.WARNING, about, f"{port} may be another adapter after a replug", remedy)
    yield _right_to_open(about, port)
    holder = port_holder(str(port))
    if holder is not None and holder != daemon:
        yield Finding(
            Level.FAILED, about, f"{port} is held by process {holder} ({_program(holder)})", "end that program"
        )
    else:
        yield ok(about, f"{port} is {'held by the daemon' if holder is not None else 'free'}")
    remedy = latency_remedy(str(port))
    if remedy:
        yield Finding(Level.WARNING, about, "the adapter holds replies back", remedy)
    elif (found_ms := latency_ms(str(port))) is not None:
        yield ok(about, f"latency timer {found_ms} ms")


def _right_to_open(about: str, port: Path) -> Finding:
    status = port.stat()
    group = _name(grp.getgrgid, status.st_gid)
    try:
        user = pwd.getpwnam(SERVICE_USER)
    except KeyError:
        if os.access(port, os.R_OK | os.W_OK):
            return ok(about, f"this user may open {port}")
        remedy = f"sudo usermod -aG {group} {_name(pwd.getpwuid, os.geteuid())}, and log in again"
        return Finding(Level.FAILED, about, f"this user may not open {port}", remedy)
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    both = stat.S_IRGRP | stat.S_IWGRP
    if status.st_uid == user.pw_uid or (status.st_gid in groups and status.st_mode & both == both):
        return ok(about, f"user {SERVICE_USER} may open {port}, by group {group}")
    remedy = f"sudo usermod -aG {group} {SERVICE_USER}, and systemctl restart gripperd"
    return Finding(Level.FAILED, about, f"user {SERVICE_USER} may not open {port} (group {group})", remedy)


async def examine_broker(mqtt: MqttConfig) -> Finding:
    """Does it take the configured user?"""
    about, place = "broker", f"{mqtt.host}:{mqtt.port}"
    try:
        security = await asyncio.to_thread(load_security, mqtt)
        async with (
            asyncio.timeout(ASK_LIMIT_S),
            aiomqtt.Client(
                mqtt.host,
                mqtt.port,
                identifier=f"gripperd-doctor-{os.getpid()}",
                username=mqtt.username,
                password=security.password,
                protocol=aiomqtt.ProtocolVersion.V5,
                tls_context=security.tls,
                timeout=ASK_LIMIT_S,
            ),
        ):
            return ok(about, f"{place} takes us")
    except SecurityError as error:
        if mqtt.password_credential is not None and "CREDENTIALS_DIRECTORY" in str(error):
            text = f"{place}: its password is a credential of the service, which only the service can read"
            return Finding(Level.SKIPPED, about, text, "look for mqtt_up in `journalctl -u gripperd`")
        return Finding(Level.FAILED, about, str(error), "correct [mqtt]")
    except (aiomqtt.MqttError, OSError, TimeoutError) as error:
        remedy = "is it running, are host, port, user and password right? see docs/mqtt.md"
        return Finding(Level.FAILED, about, f"{place}: {str(error) or 'no answer'}", remedy)


async def examine_clock() -> Finding:
    """Stamps are of the wall clock: is it set, and kept?"""
    if time.gmtime().tm_year < EARLIEST_YEAR:
        return Finding(Level.FAILED, "clock", "the clock was never set", "sudo timedatectl set-ntp true")
    text = await _output("timedatectl", "show", "--property=NTPSynchronized", "--value")
    if text == "yes":
        return ok("clock", "synchronised")
    if text == "no":
        remedy = "sudo timedatectl set-ntp true, if stamps are compared with those of other machines"
        return Finding(Level.WARNING, "clock", "not synchronised", remedy)
    return Finding(Level.SKIPPED, "clock", "nothing here tells whether it is synchronised", "see timedatectl")


async def examine_daemon(config: Config, stop: bool) -> AsyncIterator[Finding]:
    """Is it there, and what does it know of each gripper?"""
    path = config.daemon.socket
    try:
        async with await Client.connect(path, timeout_s=ASK_LIMIT_S) as client:
            info = await client.info()
            yield ok("daemon", f"gripperd {info.version} answers on {path}, up for {info.uptime_s:.0f} s")
            missing = [name for name in config.names if name not in info.grippers]
            if missing:
                remedy = "systemctl reload gripperd"
                yield Finding(Level.WARNING, "daemon", f"it does not run {', '.join(missing)}", remedy)
            for name in info.grippers:
                async for finding in _examine_gripper(client.gripper(name), name, stop):
                    yield finding
    except (GripperdError, OSError, TimeoutError) as error:
        remedy = f"systemctl status gripperd; the socket's group may open it: {_group_of(path)}"
        yield Finding(Level.FAILED, "daemon", f"{path}: {str(error) or 'no answer'}", remedy)


async def _examine_gripper(gripper: Gripper, name: str, stop: bool) -> AsyncIterator[Finding]:
    about = f"gripper {name}"
    state = await gripper.state()
    age_s = time.time() - (state.stamp.sec + state.stamp.nanosec / 1e9)
    if state.link is not Link.UP:
        remedy = "journalctl -u gripperd -g link_down tells why; power, wiring, unit, baudrate: docs/rg75.md"
        yield Finding(Level.FAILED, about, "the device does not answer", remedy)
        return
    if age_s > OLD_STATE_S:
        remedy = "gripperctl stats: look at loop stalls and round trips"
        yield Finding(Level.WARNING, about, f"its latest state is {age_s:.1f} s old", remedy)
    if state.fault is not None:
        yield Finding(
            Level.WARNING, about, f"fault: {state.fault.text}", "gripperctl clear-fault, once its cause is mended"
        )
    inactive = "" if state.activation is Activation.ACTIVE else ": gripperctl activate MOVES THE JAWS"
    yield ok(about, f"answers; {state.activation.value}{inactive}")
    if not stop:
        yield Finding(Level.SKIPPED, about, "stop path not tried", "gripperd doctor --stop sends one stop and times it")
        return
    began_s = time.monotonic()
    try:
        await gripper.stop()
    except GripperdError as error:
        yield Finding(Level.FAILED, about, f"a stop was not confirmed: {error}", "do not use it before this is mended")
        return
    took_s = time.monotonic() - began_s
    level = Level.OK if took_s < SLOW_STOP_S else Level.WARNING
    remedy = "" if level is Level.OK else "gripperctl stats: round trips of its bus"
    yield Finding(level, about, f"a stop was acknowledged after {1e3 * took_s:.1f} ms", remedy)


async def _daemon_pid(config: Config) -> int | None:
    """Who listens on the socket."""
    try:
        async with asyncio.timeout(ASK_LIMIT_S):
            _, writer = await asyncio.open_unix_connection(config.daemon.socket)
    except (OSError, TimeoutError):
        return None
    pid = read_credentials(writer.get_extra_info("socket")).pid
    writer.close()
    return pid


async def _output(*command: str) -> str | None:
    """What a tool prints; None: it is not here, or fails."""
    if shutil.which(command[0]) is None:
        return None
    child = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        out, _ = await asyncio.wait_for(child.communicate(), ASK_LIMIT_S)
    except TimeoutError:
        child.kill()
        await child.wait()
        return None
    return out.decode().strip() if child.returncode == 0 else None


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return "not to be seen"


def _group_of(path: str) -> str:
    try:
        return _name(grp.getgrgid, Path(path).stat().st_gid)
    except OSError:
        return "it is not there"


def _name(find: object, number: int) -> str:
    try:
        return str(find(number)[0])  # type: ignore[operator]
    except KeyError:
        return str(number)
