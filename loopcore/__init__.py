"""loopcore: the referee for agent loops (typed terminals, versioned precedence, receipts)."""

__version__ = "0.1.0"
