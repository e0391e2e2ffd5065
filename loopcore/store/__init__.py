"""Journals of runs and the stores that keep them: in memory, in SQLite, in PostgreSQL, in files."""
