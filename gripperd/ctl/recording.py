"""`gripperctl record`: everything that the daemon tells, in an MCAP file with JSON schemas.

Topics are /<gripper>/state, /outcome, /fault and /link. The log time is when it was so: the stamp of the round, or the
receipt where there is none. The publish time is the receipt. What a message is, its schema says, in the file.

A chunk is on the disk at the latest after `FLUSH_S`, so a recording that is killed can be read up to there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from gripperd.client import Client, GripperEvent
from gripperd.contract import CommandOutcome, DaemonInfo, Fault, GripperInfo, GripperState, Link, Message
from gripperd.ctl.errors import FileError

if TYPE_CHECKING:
    from mcap.writer import Writer

CHUNK_BYTES = 65_536
"""Messages are compressed and indexed in chunks of this size: some 150 states."""
FLUSH_S = 1.0
"""How often a chunk is ended and written out, however small [s]."""
PROGRESS_S = 0.5
"""How often the progress is told [s]."""


class FaultChange(Message):
    """The device's fault changed; null: it has none."""

    gripper: str
    fault: Fault | None


class LinkChange(Message):
    """The link changed."""

    gripper: str
    link: Link


KINDS: Mapping[str, type[Message]] = {
    "state": GripperState,
    "outcome": CommandOutcome,
    "fault": FaultChange,
    "link": LinkChange,
}


@dataclass(slots=True)
class Counts:
    """Of a recording."""

    messages: int = 0
    states: int = 0
    dropped: int = 0


class Recording:
    """A file that is being written. Use it as a context manager: it is finished on every way out."""

    def __init__(self, path: Path, info: DaemonInfo, grippers: Sequence[GripperInfo], overwrite: bool) -> None:
        self.counts = Counts()
        self._path = path
        self._file: IO[bytes] = _open(path, overwrite)
        self._writer = _writer(self._file)
        self._channels: dict[tuple[str, str], int] = {}
        self._sequence = 0
        with self._told():
            self._writer.start(profile="", library="gripperctl")
            self._writer.add_metadata("gripperd", {name: str(value) for name, value in info.to_dict().items()})
            for gripper in grippers:
                told = {name: str(value) for name, value in gripper.to_dict().items()}
                self._writer.add_metadata(f"gripper {gripper.name}", told)
            schemas = {
                kind: self._writer.register_schema(
                    name=f"gripperd.{model.__name__}",
                    encoding="jsonschema",
                    data=json.dumps(model.model_json_schema(mode="serialization")).encode(),
                )
                for kind, model in KINDS.items()
            }
            for gripper in grippers:
                for kind, schema in schemas.items():
                    self._channels[gripper.name, kind] = self._writer.register_channel(
                        topic=f"/{gripper.name}/{kind}", message_encoding="json", schema_id=schema
                    )

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def write(self, event: GripperEvent, receipt_ns: int) -> None:
        """One thing that the daemon told. Raises FileError."""
        kind, message, gripper, stamp_ns = _message(event)
        self._sequence += 1
        self.counts.messages += 1
        self.counts.states += kind == "state"
        with self._told():
            self._writer.add_message(
                channel_id=self._channels[gripper, kind],
                log_time=stamp_ns or receipt_ns,
                publish_time=receipt_ns,
                sequence=self._sequence,
                data=message.to_json(),
            )

    def flush(self) -> None:
        """What was written so far is on its way to the disk. Raises FileError."""
        with self._told():
            self._writer.flush()  # type: ignore[no-untyped-call]

    def size_bytes(self) -> int:
        """Of the file."""
        return self._file.tell()

    def close(self) -> None:
        """Finish the file. Raises FileError."""
        if self._file.closed:
            return
        try:
            with self._told():
                totals = {name: str(getattr(self.counts, name)) for name in ("messages", "states", "dropped")}
                self._writer.add_metadata("recording", totals)
                self._writer.finish()  # type: ignore[no-untyped-call]
        finally:
            with contextlib.suppress(OSError):  # the disk is full, and that was told
                self._file.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise FileError(f"{self._path} cannot be written: {error.strerror or error}") from None


def _open(path: Path, overwrite: bool) -> IO[bytes]:
    try:
        return path.open("wb" if overwrite else "xb")
    except FileExistsError:
        raise FileError(f"{path} exists: give another name, or --force") from None
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror}") from None


def _writer(file: IO[bytes]) -> Writer:
    try:
        from mcap.writer import Writer
    except ImportError:
        raise FileError("recording needs the package mcap: pip install 'gripperd[record]'") from None
    return Writer(file, chunk_size=CHUNK_BYTES)


def _message(event: GripperEvent) -> tuple[str, Message, str, int]:
    """(kind, message, gripper, stamp [ns] or 0)."""
    if isinstance(event, GripperState):
        return "state", event, event.gripper, event.stamp.to_ns()
    if isinstance(event, CommandOutcome):
        return "outcome", event, event.gripper, event.stamp.to_ns()
    gripper, changed = event
    if isinstance(changed, Link):
        return "link", LinkChange(gripper=gripper, link=changed), gripper, 0
    return "fault", FaultChange(gripper=gripper, fault=changed), gripper, 0


async def record(
    client: Client,
    names: Sequence[str],
    path: Path,
    *,
    overwrite: bool,
    states: int,
    enough: asyncio.Event,
    tell: Callable[[Counts, int], None],
) -> Counts:
    """Record until `enough` is set, or until so many states have come (0: no limit). tell: the progress.

    Raises FileError, ConnectionLostError; the file is finished all the same.
    """
    infos = [await client.gripper(name).info() for name in names]
    with Recording(path, await client.info(), infos, overwrite) as recording:

        async def follow(name: str) -> None:
            dropped = 0
            async with client.gripper(name).events() as events:
                async for event in events:
                    recording.write(event, time.time_ns())
                    recording.counts.dropped += events.dropped - dropped
                    dropped = events.dropped
                    if states and recording.counts.states >= states:
                        enough.set()
                    if enough.is_set():
                        return

        async def flush() -> None:
            while True:
                await asyncio.sleep(FLUSH_S)
                recording.flush()

        async def progress() -> None:
            while True:
                tell(recording.counts, recording.size_bytes())
                await asyncio.sleep(PROGRESS_S)

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(follow(name)) for name in names]
            running += [tasks.create_task(flush()), tasks.create_task(progress())]
            await enough.wait()
            for task in running:
                task.cancel()
        return recording.counts
