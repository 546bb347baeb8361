"""Facts of the Franka Hand and of the gripper protocol. Nothing here decides anything.

Sources: [S] read in libfranka and libfranka-common; [M] measured with unmodified clients (pylibfranka 0.21.3); [U] told
by users and maintainers, with the thread; [?] to be checked on hardware: docs/franka-hand.md lists how.
"""

from __future__ import annotations

from typing import Final

TCP_PORT: Final = 1338
"""The hand's port; the vacuum gripper's is 1339. [S]"""
PROTOCOL_VERSION: Final = 3
"""Of the gripper protocol, for libfranka 0.7.1 and later. [S]"""

MODEL: Final = "Franka Hand"
MAX_SPEED_M_S: Final = 0.1
"""Fastest change of the width: 0.05 m/s for each finger. Data sheet."""
MIN_FORCE_N: Final = 30.0
"""Smaller forces have no effect that users could see. [U] libfranka#111"""
MAX_FORCE_N: Final = 70.0
"""Continuous grasping force. Data sheet."""
MAX_STATE_RATE_HZ: Final = 15.0
"""Of the datagrams. [U] franka_ros2#121, #132"""
