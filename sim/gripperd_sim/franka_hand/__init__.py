"""The Franka Hand: libfranka's gripper protocol over TCP and UDP, and the hand behind it.

hand, motion, world, wire, options (pure); server (asyncio); command (the process).
"""

from gripperd_sim.franka_hand.hand import FrankaHand
from gripperd_sim.franka_hand.options import HandOptions

__all__ = ["FrankaHand", "HandOptions"]
