"""gripperctl: a person's or a script's hand on the daemon. A client like any other."""

from gripperd.ctl.program import main

__all__ = ["main"]
