"""gripperd: the one process on a robot host that owns every electric gripper and tells the truth about it."""

from importlib.metadata import version

__version__ = version("gripperd")
