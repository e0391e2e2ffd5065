"""The live runner: a pure protocol over a journal, and the drivers that carry its commands out."""
