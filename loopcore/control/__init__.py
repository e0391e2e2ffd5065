"""Control: what a controller sees, and the levels A to E that decide on it (pure)."""
