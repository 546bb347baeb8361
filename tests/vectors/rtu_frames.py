"""Literal RTU frames of the Jodell map; every CRC was recomputed independently. See docs/rg75.md for the sources.

(name, request, reply). Unit 9. Frames marked "built" have a layout from code [C] or the Modbus specification, not from
a manual.
"""

from __future__ import annotations

ACK_ONE = "09 10 03 E8 00 01 80 F1"
ACK_THREE = "09 10 03 E8 00 03 01 30"

WRITES = [
    ("reset", (0x0000,), "09 10 03 E8 00 01 02 00 00 E5 B8", ACK_ONE),
    ("enable or stop", (0x0001,), "09 10 03 E8 00 01 02 00 01 24 78", ACK_ONE),
    ("go, built", (0x0009,), "09 10 03 E8 00 01 02 00 09 25 BE", ACK_ONE),
    ("close 255/255", (0x0009, 0xFF00, 0xFFFF), "09 10 03 E8 00 03 06 00 09 FF 00 FF FF 9E 95", ACK_THREE),
    ("open 255/255", (0x0009, 0x0000, 0xFFFF), "09 10 03 E8 00 03 06 00 09 00 00 FF FF AE 81", ACK_THREE),
    ("preset 1", (0x010B,), "09 10 03 E8 00 01 02 01 0B A5 EF", ACK_ONE),
    ("preset 2", (0x020B,), "09 10 03 E8 00 01 02 02 0B A5 1F", ACK_ONE),
]
"""(name, words from 0x03E8, request, acknowledgement)"""

READS = [
    (
        "status, 3 registers: the manual's example",
        3,
        "09 04 07 D0 00 03 B1 CE",
        "09 04 06 00 F1 FE 04 01 00 0B 3F",
        (0x00F1, 0xFE04, 0x0100),
    ),
    (
        "status, 4 registers, built: 25 degrees, 24 V",
        4,
        "09 04 07 D0 00 04 F0 0C",
        "09 04 08 00 F1 FE 04 01 00 19 18 00 DA",
        (0x00F1, 0xFE04, 0x0100, 0x1918),
    ),
]
"""(name, count from 0x07D0 with function 04, request, reply, registers)"""

STATUS_ONE_REQUEST = "09 04 07 D0 00 01 30 0F"
BRAKE_OPEN_REQUEST = "09 10 03 FC 00 01 02 00 01 27 6C"

EXCEPTIONS = [
    ("function 04, illegal address", 0x04, 2, "09 84 02 43 03"),
    ("function 10h, illegal value", 0x10, 3, "09 90 03 8D C3"),
]
"""(name, function, code, reply): standard Modbus, not seen from a device."""
