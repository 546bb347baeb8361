"""Tests of the simulators. They import nothing of the daemon; pymodbus is the independent reading of Modbus."""
