"""One supervised gripper: rounds (supervisor), commands (dispatch), stops (stopping), numbers and outcomes (ledger)."""

from gripperd.gripper.supervisor import Gripper

__all__ = ["Gripper"]
