"""What goes wrong between a device and its master: a seeded, scriptable library of line faults.

Pure. faults.arm(fault("delay", count=1, delay_s=2.5), now_s), then faults.exchange(request, now_s) in place of
device.handle(request, now_s); docs/simulator.md lists the kinds and the order in which they apply.
"""

from gripperd_sim.faults.line_faults import FaultyDevice, LineFaults
from gripperd_sim.faults.model import Fault, FaultKind, Outgoing, When, fault

__all__ = ["Fault", "FaultKind", "FaultyDevice", "LineFaults", "Outgoing", "When", "fault"]
