"""gripperctl: a person's or a script's hand on the daemon. A client like any other."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from gripperd.client import DEFAULT_SOCKET, AnswerError, Client, Gripper, PendingCommand
from gripperd.contract import (
    Code,
    CommandOutcome,
    CommandRefusedError,
    CommandReply,
    ConnectionLostError,
    GripperState,
    Message,
    Outcome,
    RpcError,
    Verb,
)
from gripperd.watch import state_line, watch

EXIT_DONE = 0
EXIT_OTHER_OUTCOME = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
EXIT_UNREACHABLE = 4
EXIT_TIMEOUT = 5
EXIT_INTERRUPTED = 130

DEFAULT_WAIT_S = 30.0
"""Longest wait for an outcome [s]: more than the daemon's own limits for a motion and an activation."""

WISHED = {
    Verb.GRIP: {Outcome.CONTACT},
    Verb.STOP: {Outcome.STOPPED},
}
"""Outcomes that are what was asked for; of all other verbs it is `reached`."""

_EPILOG = """exit codes:
  0    done as asked: reached; for grip contact; for stop acknowledged
  1    the command ended otherwise (closed_empty, width_mismatch, stalled, stopped, ...)
  2    wrong usage
  3    refused by the daemon; the code and the reason are printed
  4    the daemon cannot be reached, or was lost, or speaks another contract
  5    no outcome within --timeout
  130  interrupted with Ctrl-C; the gripper goes on as after --no-wait, `gripperctl stop` halts it

examples:
  gripperctl activate                     the jaws sweep their whole stroke
  gripperctl move 0.03 --speed 0.2        clear width in metres
  gripperctl grip --expect-width 0.03 && echo held
  gripperctl --json watch | jq .opening_width_m
"""


def _not_negative(text: str) -> float:
    """A number for argparse: seconds, or a rate."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not possible: give a finite number, 0 or more")
    return number


def _count(text: str) -> int:
    """A number of things for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not possible: give a whole number, 0 for no end")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gripperctl",
        description="Look at the grippers of gripperd and command them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = os.environ.get("GRIPPERD_SOCKET", DEFAULT_SOCKET)
    parser.add_argument("--socket", default=default, metavar="PATH", help="default: $GRIPPERD_SOCKET or %(default)s")
    parser.add_argument("--gripper", metavar="NAME", help="may be left out where one is configured")
    parser.add_argument("--json", action="store_true", help="messages of the contract, one JSON object a line")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("list", help="all grippers")
    verbs.add_parser("info", help="what a gripper can do")
    verbs.add_parser("state", help="the latest round")
    verbs.add_parser("stats", help="counters of the daemon")
    look = verbs.add_parser("watch", help="follow the states; a live table on a terminal, else a line each")
    look.add_argument(
        "--rate", type=_not_negative, default=0.0, metavar="HZ", help="at most this many per second and gripper; 0: all"
    )
    look.add_argument("--count", type=_count, default=0, metavar="N", help="end after N states; 0: never")
    ended = verbs.add_parser("wait", help="the outcome of a command by its number")
    ended.add_argument("command_seq", type=int, metavar="SEQ")
    ended.add_argument(
        "--timeout", type=_not_negative, default=DEFAULT_WAIT_S, metavar="S", help="default: %(default)s s"
    )
    halt = verbs.add_parser("stop", help="halt; without --gripper all of them")
    halt.add_argument("--all", action="store_true", help="all grippers, also where --gripper is given")
    _add_commands(verbs)
    return parser


def _add_commands(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    texts = {
        "activate": "make it ready; MOVES the jaws unless it is active already",
        "deactivate": "disable the drive",
        "clear-fault": "clear the device's faults",
        "release": "slow automatic release",
        "move": "drive to a clear width",
        "grip": "close on what is there",
        "open": "drive to the open end",
    }
    for name, text in texts.items():
        verb = verbs.add_parser(name, help=text)
        verb.add_argument(
            "--wait",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="for the outcome; --no-wait returns when the device has acknowledged",
        )
        verb.add_argument(
            "--timeout", type=_not_negative, default=DEFAULT_WAIT_S, metavar="S", help="default: %(default)s s"
        )
        if name == "move":
            verb.add_argument("width_m", type=float, metavar="WIDTH_M", help="clear width [m]")
        if name in ("move", "grip", "open"):
            verb.add_argument(
                "--speed", type=float, default=0.0, metavar="R", help="above 0 up to 1; default: configured"
            )
        if name == "grip":
            verb.add_argument(
                "--effort", type=float, default=0.0, metavar="R", help="above 0 up to 1; default: configured"
            )
            verb.add_argument("--expect-width", type=float, metavar="M", help="criterion for the outcome [m]")


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

    async def _watch(self) -> int:
        names = (
            [self.options.gripper]
            if self.options.gripper
            else [each.name for each in (await self.client.grippers()).grippers]
        )
        live = sys.stdout.isatty() and not self.options.json

        def tell(state: GripperState) -> None:
            self._tell(state, state_line(state, time.time_ns()))

        try:
            await watch(self.client, names, self.options.rate, self.options.count, None if live else tell)
        except BaseExceptionGroup as group:
            raise _first(group) from None  # several grippers lose the same daemon
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
        width = f", {outcome.opening_width_m:.4f} m" if outcome.opening_width_valid else ""
        note = f": {outcome.message}" if outcome.message else ""
        ended = f"{outcome.gripper} {outcome.verb} {outcome.command_seq}: {outcome.outcome}"
        self._tell(outcome, f"{ended}{width}, {outcome.grasp_state.name}{note}")
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


def _reply_line(reply: CommandReply) -> str:
    number = f" {reply.command_seq}" if reply.command_seq else ""
    return f"{reply.gripper}{number}: {reply.code}: {reply.message}"


def _wait_again(reply: CommandReply) -> str:
    return f"`gripperctl --gripper {reply.gripper} wait {reply.command_seq}`"


async def _run(options: argparse.Namespace) -> int:
    async with await Client.connect(options.socket) as client:
        return await Program(options, client).run()


def _guarded(options: argparse.Namespace) -> int:
    try:
        return asyncio.run(_run(options))
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
    except TimeoutError as error:
        print(f"gripperctl: {error}", file=sys.stderr)
        return EXIT_TIMEOUT


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the program; returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return _guarded(options)
    except KeyboardInterrupt:
        if options.verb not in ("watch", "state", "list", "info", "stats"):
            print("gripperctl: interrupted; the gripper goes on: `gripperctl stop` halts it", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main())
