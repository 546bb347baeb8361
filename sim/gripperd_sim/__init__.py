"""Gripper simulators that speak the devices' own wire protocols. Independent of the daemon: nothing here imports it."""
