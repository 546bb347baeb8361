"""The messages that the daemon sends: contract.md section 2 and the answers of section 8.13.

Fields come in the order of the contract. Wire forms are what `to_json()` gives.
"""

from __future__ import annotations

from gripperd.contract.base import (
    Activation,
    Code,
    CommandPhase,
    GraspState,
    Link,
    Message,
    MotionState,
    OnDisconnect,
    Outcome,
    Verb,
)


class Stamp(Message):
    """Start of an acquisition round, Unix epoch. (0, 0) means unknown."""

    sec: int = 0
    nanosec: int = 0

    @classmethod
    def from_ns(cls, wall_ns: int) -> Stamp:
        """From nanoseconds since the epoch."""
        sec, nanosec = divmod(wall_ns, 1_000_000_000)
        return cls(sec=sec, nanosec=nanosec)

    def to_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return self.sec * 1_000_000_000 + self.nanosec


class Fault(Message):
    """The device's own fault."""

    code: int
    text: str


class Readings(Message):
    """Extras read in the same round. None: the device was not asked or does not tell.

    effort and speed are device-relative, 0 to 1; temperature in [°C]; supply voltage in [V].
    """

    effort: float | None = None
    speed: float | None = None
    temperature_c: float | None = None
    voltage_v: float | None = None


class GripperState(Message):
    """One acquisition round. Every observation has its own validity; nothing old is repeated as new."""

    stamp: Stamp = Stamp()
    opening_width_valid: bool = False
    opening_width_m: float = 0.0
    grasp_state: GraspState = GraspState.UNKNOWN
    motion_state: MotionState = MotionState.UNKNOWN
    gripper: str
    boot_id: str
    seq: int
    link: Link = Link.DOWN
    activation: Activation = Activation.UNKNOWN
    activation_epoch: int = 1
    command_seq: int = 0
    command_phase: CommandPhase = CommandPhase.NONE
    fault: Fault | None = None
    readings: Readings | None = None


class GripperInfo(Message):
    """What a gripper can do, as configured. Widths in [m], forces in [N] per gripping face."""

    ok: bool = True
    message: str = ""
    grip_effort_configurable: bool = False
    move_speed_configurable: bool = False
    grip_speed_configurable: bool = False
    open_speed_configurable: bool = False
    opening_width_range_valid: bool = False
    min_opening_width_m: float = 0.0
    max_opening_width_m: float = 0.0
    gripping_force_range_valid: bool = False
    min_gripping_force_n: float = 0.0
    max_gripping_force_n: float = 0.0
    grip_without_expected_width_supported: bool = True
    grip_with_expected_width_supported: bool = False
    name: str
    driver: str
    model: str
    device_version: str = ""
    stop_supported: bool = True
    release_supported: bool = False
    grasp_state_supported: bool = False
    motion_state_supported: bool = False
    slip_supported: bool = False
    expected_width_tolerance_m: float = 0.0
    poll_rate_hz: float = 0.0


class CommandReply(Message):
    """Answer to a command. ok means accepted and acknowledged by the device, never arrived, held or stopped."""

    ok: bool
    message: str
    code: Code
    gripper: str
    command_seq: int = 0


class StopReply(Message):
    """Answer to a stop of all grippers."""

    ok: bool
    message: str
    replies: list[CommandReply]


class StopOfOnlyReply(CommandReply):
    """Answer to a stop of all where one gripper is configured: its own reply, and the list as well."""

    replies: list[CommandReply]


class CommandOutcome(Message):
    """How one accepted command ended."""

    gripper: str
    command_seq: int
    verb: Verb
    outcome: Outcome
    message: str = ""
    opening_width_valid: bool = False
    opening_width_m: float = 0.0
    grasp_state: GraspState = GraspState.UNKNOWN
    stamp: Stamp = Stamp()


class WaitReply(Message):
    """Answer of `wait`. done is false when its time was over before the command ended."""

    done: bool
    outcome: CommandOutcome | None = None


class DaemonInfo(Message):
    """Who answers."""

    version: str
    contract: int
    boot_id: str
    host: str
    uptime_s: float
    grippers: list[str]


class GripperListEntry(Message):
    """One line of `gripper.list`."""

    name: str
    driver: str
    model: str
    link: Link
    activation: Activation


class GripperList(Message):
    """Answer of `gripper.list`."""

    grippers: list[GripperListEntry]


class HelloReply(Message):
    """Answer of `client.hello`: the number of this client."""

    client: int


class ClientEntry(Message):
    """One client of the daemon. Times in [s].

    client: its number, never used twice while the daemon lives. name: as it called itself. user: who runs it, pid: its
    process; "" and 0 where the transport does not tell. holds: grippers that only it may command. commanded_last:
    grippers whose last accepted command was its own.
    """

    client: int
    name: str
    transport: str
    user: str
    pid: int
    may_command: bool
    on_disconnect: OnDisconnect
    heartbeat_s: float
    connected_s: float
    holds: list[str]
    commanded_last: list[str]


class LastCommand(Message):
    """The last accepted command of one gripper, and whose it was. connected: whether that client is still there."""

    gripper: str
    client: int
    name: str
    verb: Verb
    command_seq: int
    connected: bool


class ClientList(Message):
    """Answer of `client.list`."""

    clients: list[ClientEntry]
    last_commands: list[LastCommand]


class SubscribeReply(Message):
    """Answer of `gripper.subscribe`: the number that notifications carry."""

    subscription: int


class StateNotification(Message):
    """Parameters of the notification `gripper.state`. dropped: states lost to this reader since the one before."""

    subscription: int
    state: GripperState
    dropped: int


class OutcomeNotification(Message):
    """Parameters of the notification `gripper.outcome`."""

    subscription: int
    outcome: CommandOutcome


class FaultNotification(Message):
    """Parameters of the notification `gripper.fault`. null: the device has no fault any more."""

    subscription: int
    gripper: str
    fault: Fault | None


class LinkNotification(Message):
    """Parameters of the notification `gripper.link`."""

    subscription: int
    gripper: str
    link: Link


class Availability(Message):
    """MQTT last will and birth message: "online" or "offline"."""

    state: str
