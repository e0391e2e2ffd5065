"""Exhaustive exploration of the pure protocol within small bounds."""

from loopcore.testing.exploration.searching import Exploration, Explorer, explore

__all__ = ["Exploration", "Explorer", "explore"]
