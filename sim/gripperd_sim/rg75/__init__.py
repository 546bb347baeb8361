"""The simulated Jodell RG75: a pure, register-level device. Made independently of the daemon's driver."""

from gripperd_sim.rg75.device import Rg75
from gripperd_sim.rg75.options import Rg75Options

__all__ = ["Rg75", "Rg75Options"]
