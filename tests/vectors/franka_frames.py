"""Literal bytes of libfranka's gripper protocol. Layouts from libfranka-common [S]; doubles by hand from IEEE 754.

Ids and ports are chosen so that every byte of them shows.
"""

from __future__ import annotations

CONNECT = "00 00  00 00 00 00  0e 00 00 00  03 00  34 12"
"""Version 3, UDP port 0x1234."""
CONNECT_ANSWER = "00 00  00 00 00 00  0e 00 00 00  00 00  03 00"
CONNECT_REFUSED = "00 00  00 00 00 00  0e 00 00 00  01 00  02 00"
"""Incompatible version; the server speaks 2."""
HOMING = "01 00  01 00 00 00  0a 00 00 00"
MOVE = "03 00  04 03 02 01  1a 00 00 00  00 00 00 00 00 00 d0 3f  00 00 00 00 00 00 c0 3f"
"""Id 0x01020304, width 0.25, speed 0.125."""
GRASP = (
    "02 00  07 00 00 00  32 00 00 00  00 00 00 00 00 00 b0 3f  00 00 00 00 00 00 80 3f"
    "  00 00 00 00 00 00 90 3f  00 00 00 00 00 00 c0 3f  00 00 00 00 00 00 3e 40"
)
"""Id 7, width 0.0625, epsilon_inner 0.0078125, epsilon_outer 0.015625, speed 0.125, force 30."""
STOP = "04 00  09 00 00 00  0a 00 00 00"
ANSWER_SUCCESS = "03 00  05 00 00 00  0c 00 00 00  00 00"
ANSWER_ABORTED = "03 00  05 00 00 00  0c 00 00 00  03 00"
STATE = "04 03 02 01  00 00 00 00 00 00 b0 3f  00 00 00 00 00 00 c0 3f  01  19 00"
"""message_id 0x01020304, width 0.0625, max_width 0.125, grasped, 25 degrees."""
VACUUM = "01 00  02 00 00 00  14 00 00 00  0a  00  e8 03 00 00 00 00 00 00"
"""Id 2: 100 mbar, profile P0, 1000 ms."""
DROP_OFF = "02 00  03 00 00 00  12 00 00 00  e8 03 00 00 00 00 00 00"
VACUUM_STOP = "03 00  04 00 00 00  0a 00 00 00"
VACUUM_STATE = "04 03 02 01  01  00  01  02  64 00 00 00  f4 01 00 00"
"""In the control range, nothing detached, part present, orange, 100 %, 500 mbar."""
