"""The engine of `loopcore verify`: properties against a target, events out, typed results."""
