"""Contestants compared: on recorded runs by counterfactual replay, and what the figures are worth."""
