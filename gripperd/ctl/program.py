"""What gripperctl does for each verb."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import shtab

from gripperd.client import AnswerError, Client, Gripper, GripperEvent, PendingCommand
from gripperd.contract import (
    Code,
    CommandOutcome,
    CommandRefusedError,
    CommandReply,
    ConnectionLostError,
    Event,
    GripperState,
    Link,
    Message,
    Outcome,
    RpcError,
)
from gripperd.ctl.errors import FileError
from gripperd.ctl.parser import (
    EXIT_DONE,
    EXIT_FILE,
    EXIT_INTERRUPTED,
    EXIT_OTHER_OUTCOME,
    EXIT_REFUSED,
    EXIT_TIMEOUT,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    MOVING,
    WISHED,
    parser,
)
from gripperd.ctl.plotting import plot
from gripperd.ctl.recording import Counts, FaultChange, LinkChange, record
from gripperd.watch import client_line, state_line, watch


class Program:
    """One call of gripperctl."""

    def __init__(self, options: argparse.Namespace, client: Client) -> None:
        self.options = options
        self.client = client
        self.gripper: Gripper = client.gripper(options.gripper)

    async def run(self) -> int:
        """The exit code."""
        look: dict[str, Callable[[], Awaitable[int]]] = {
            "list": self._list,
            "info": self._info,
            "state": self._state,
            "stats": self._stats,
            "watch": self._watch,
            "events": self._events,
            "clients": self._clients,
            "record": self._record,
            "wait": self._wait,
            "stop": self._stop,
        }
        verb = self.options.verb
        return await (look[verb]() if verb in look else self._command())

    def _tell(self, message: Message, text: str) -> None:
        print(message.to_json().decode() if self.options.json else text, flush=True)

    async def _list(self) -> int:
        grippers = await self.client.grippers()
        lines = [
            f"{each.name}: {each.model} ({each.driver}), link {each.link}, {each.activation}"
            for each in grippers.grippers
        ]
        self._tell(grippers, "\n".join(lines))
        return EXIT_DONE

    async def _info(self) -> int:
        info = await self.gripper.info()
        self._tell(info, "\n".join(f"{name}: {value}" for name, value in info.to_dict().items()))
        return EXIT_DONE

    async def _state(self) -> int:
        state = await self.gripper.state()
        self._tell(state, state_line(state, time.time_ns()))
        return EXIT_DONE

    async def _stats(self) -> int:
        statistics = await self.client.statistics()
        if self.options.json:
            print(json.dumps(statistics))
            return EXIT_DONE
        for part, names in statistics.items():
            for name, counters in names.items():
                for counter, value in counters.items():
                    print(f"{part}.{name}.{counter} {value}")
        return EXIT_DONE

    async def _clients(self) -> int:
        told = await self.client.clients()
        lines = [client_line(each) for each in told.clients]
        lines += [
            f"last command of {each.gripper}: {each.verb} {each.command_seq} by client {each.client} {each.name!r}"
            f"{'' if each.connected else ', which has left'}"
            for each in told.last_commands
        ]
        self._tell(told, "\n".join(lines))
        return EXIT_DONE

    async def _names(self) -> list[str]:
        """The grippers that are meant."""
        if self.options.gripper:
            return [self.options.gripper]
        return [each.name for each in (await self.client.grippers()).grippers]

    async def _events(self) -> int:
        left = self.options.count
        kinds = (Event.OUTCOME, Event.FAULT, Event.LINK)
        enough = asyncio.Event()

        async def follow(name: str) -> None:
            nonlocal left
            async with self.client.gripper(name).events(kinds) as events:
                async for event in events:
                    if enough.is_set():
                        return
                    self._tell_event(event)
                    left -= 1
                    if left == 0:
                        enough.set()

        with _ended_by(enough, self.options.for_s):
            await _until(enough, [follow(name) for name in await self._names()])
        return EXIT_DONE

    def _tell_event(self, event: GripperEvent) -> None:
        if isinstance(event, GripperState):
            return
        if isinstance(event, CommandOutcome):
            self._tell(event, _outcome_line(event))
            return
        gripper, changed = event
        if isinstance(changed, Link):
            self._tell(LinkChange(gripper=gripper, link=changed), f"{gripper} link {changed}")
        else:
            text = "no fault" if changed is None else f"fault {changed.code}: {changed.text}"
            self._tell(FaultChange(gripper=gripper, fault=changed), f"{gripper} {text}")

    async def _record(self) -> int:
        options, enough = self.options, asyncio.Event()
        show = sys.stderr.isatty()

        def tell(counts: Counts, size_bytes: int) -> None:
            if show:
                print(f"\r\x1b[K{_counts(counts, size_bytes)}", end="", file=sys.stderr, flush=True)

        with _ended_by(enough, options.for_s):
            counts = await record(
                self.client,
                await self._names(),
                options.file,
                overwrite=options.force,
                states=options.count,
                enough=enough,
                tell=tell,
            )
        if show:
            print("\r\x1b[K", end="", file=sys.stderr)
        size_bytes = options.file.stat().st_size
        if options.json:
            print(json.dumps({"file": str(options.file), "bytes": size_bytes, **asdict(counts)}))
        else:
            print(f"{options.file}: {_counts(counts, size_bytes)}")
        return EXIT_DONE

    async def _watch(self) -> int:
        names = await self._names()
        live = sys.stdout.isatty() and not self.options.json

        def tell(state: GripperState) -> None:
            self._tell(state, state_line(state, time.time_ns()))

        await watch(self.client, names, self.options.rate, self.options.count, None if live else tell)
        return EXIT_DONE

    async def _wait(self) -> int:
        return self._judge(await self.gripper.outcome(self.options.command_seq, self.options.timeout))

    async def _stop(self) -> int:
        if self.options.gripper is None or self.options.all:
            stopped = await self.client.stop_all()
            self._tell(stopped, "\n".join(_reply_line(reply) for reply in stopped.replies))
            if len(stopped.replies) > 1 and not self.options.all:
                print(f"gripperctl: no --gripper given: all {len(stopped.replies)} were told to stop", file=sys.stderr)
            return EXIT_DONE if stopped.ok else EXIT_REFUSED
        stop = await self.gripper.stop()
        self._tell(stop.reply, _reply_line(stop.reply))
        return EXIT_DONE

    async def _command(self) -> int:
        command = await self._give()
        if not self.options.wait:
            self._tell(command.reply, _reply_line(command.reply))
            return EXIT_DONE
        if not self.options.json:
            print(_reply_line(command.reply), file=sys.stderr, flush=True)
        try:
            async with _progress(self.gripper, command):
                outcome = await command.outcome(self.options.timeout)
        except TimeoutError as error:
            again = _wait_again(command.reply)
            raise TimeoutError(f"{error}, and goes on: {again} waits again, `gripperctl stop` halts it") from None
        return self._judge(outcome)

    async def _give(self) -> PendingCommand:
        options, gripper = self.options, self.gripper
        if options.verb == "move":
            return await gripper.move(options.width_m, options.speed)
        if options.verb == "grip":
            return await gripper.grip(options.effort, options.speed, options.expect_width)
        if options.verb == "open":
            return await gripper.open(options.speed)
        plain = {
            "activate": gripper.activate,
            "deactivate": gripper.deactivate,
            "clear-fault": gripper.clear_fault,
            "release": gripper.release,
        }
        return await plain[options.verb]()

    def _judge(self, outcome: CommandOutcome) -> int:
        self._tell(outcome, _outcome_line(outcome))
        return EXIT_DONE if outcome.outcome in WISHED.get(outcome.verb, {Outcome.REACHED}) else EXIT_OTHER_OUTCOME


@contextlib.asynccontextmanager
async def _progress(gripper: Gripper, command: PendingCommand) -> AsyncIterator[None]:
    """A line on a terminal's standard error that shows the width while the command runs."""
    if not sys.stderr.isatty():
        yield
        return

    async def show() -> None:
        async for state in gripper.states(max_rate_hz=10.0):
            print(f"\r\x1b[K{state_line(state, time.time_ns())}", end="", file=sys.stderr, flush=True)

    task = asyncio.create_task(show(), name=f"progress of {command.command_seq}")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What one task of a group met; the others met the same, or were ended because of it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _outcome_line(outcome: CommandOutcome) -> str:
    width = f", {outcome.opening_width_m:.4f} m" if outcome.opening_width_valid else ""
    note = f": {outcome.message}" if outcome.message else ""
    ended = f"{outcome.gripper} {outcome.verb} {outcome.command_seq}: {outcome.outcome}"
    return f"{ended}{width}, {outcome.grasp_state.name}{note}"


def _counts(counts: Counts, size_bytes: int) -> str:
    lost = f", {counts.dropped} states lost" if counts.dropped else ""
    return f"{counts.messages} messages, {counts.states} states{lost}, {size_bytes / 1024:.0f} KiB"


@contextlib.contextmanager
def _ended_by(enough: asyncio.Event, for_s: float) -> Iterator[None]:
    """Ctrl-C, SIGTERM, or so many seconds are an end like any other. for_s: 0 for none [s]."""
    loop = asyncio.get_running_loop()
    alarm = loop.call_later(for_s, enough.set) if for_s else None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, enough.set)
    try:
        yield
    finally:
        if alarm is not None:
            alarm.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _until(enough: asyncio.Event, work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Do it until `enough` is set."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(each) for each in work]
        await enough.wait()
        for task in running:
            task.cancel()


def _reply_line(reply: CommandReply) -> str:
    number = f" {reply.command_seq}" if reply.command_seq else ""
    return f"{reply.gripper}{number}: {reply.code}: {reply.message}"


def _wait_again(reply: CommandReply) -> str:
    return f"`gripperctl --gripper {reply.gripper} wait {reply.command_seq}`"


async def _run(options: argparse.Namespace) -> int:
    if options.verb == "completion":
        print(shtab.complete(parser(), options.shell))
        return EXIT_DONE
    if options.verb == "plot":
        picture = options.output or options.file.with_suffix(".png")
        shown = plot(options.file, picture, options.from_s, options.to_s)
        print(f"{picture}: {', '.join(each.gripper for each in shown)}")
        return EXIT_DONE
    async with await Client.connect(options.socket) as client:
        if options.verb in (*MOVING, "watch", "events", "record"):  # so that `clients` tells who it is
            await client.hello(f"gripperctl {options.verb}")
        return await Program(options, client).run()


def _guarded(options: argparse.Namespace) -> int:
    try:
        try:
            return asyncio.run(_run(options))
        except BaseExceptionGroup as group:
            raise _first(group) from None  # several grippers lose the same daemon
    except CommandRefusedError as error:
        if options.json:
            print(error.reply.to_json().decode())
        hint = ""
        if error.code is Code.NOT_CONFIRMED and error.reply.command_seq:
            hint = f"; {_wait_again(error.reply)} tells what came of it"
        print(f"gripperctl: refused: {error}{hint}", file=sys.stderr)
        return EXIT_REFUSED
    except RpcError as error:
        print(f"gripperctl: {error}", file=sys.stderr)
        return EXIT_USAGE
    except ValueError as error:
        print(f"gripperctl: {error}", file=sys.stderr)
        return EXIT_USAGE
    except (ConnectionLostError, AnswerError) as error:
        print(f"gripperctl: {error}", file=sys.stderr)
        return EXIT_UNREACHABLE
    except FileError as error:
        print(f"gripperctl: {error}", file=sys.stderr)
        return EXIT_FILE
    except TimeoutError as error:
        print(f"gripperctl: {error}", file=sys.stderr)
        return EXIT_TIMEOUT


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the program; returns its exit code."""
    options = parser().parse_args(arguments)
    try:
        return _guarded(options)
    except KeyboardInterrupt:
        if options.verb in MOVING or options.verb == "wait":
            print("gripperctl: interrupted; the gripper goes on: `gripperctl stop` halts it", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_DONE
