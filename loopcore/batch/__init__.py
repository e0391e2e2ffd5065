"""The evaluator and the controllers over columns: many runs at once, equal to one at a time."""
