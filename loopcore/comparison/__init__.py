"""Contestants compared on recorded runs, and what the figures are worth."""
