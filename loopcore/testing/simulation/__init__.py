"""Deterministic simulation of the live runner: one seed, one run, every fault, every rule.

`simulate(seed)` plays one run and says which rule broke, if any; `sweep(first, runs)` plays many.
A user's own test can call both.
"""

from loopcore.testing.simulation.options import Options, drawn
from loopcore.testing.simulation.running import Outcome, Simulation, simulate
from loopcore.testing.simulation.sweeping import SweepResult, sweep

__all__ = ["Options", "Outcome", "Simulation", "SweepResult", "drawn", "simulate", "sweep"]
