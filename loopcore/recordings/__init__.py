"""Importers: recorded agent runs become observations, one module a format."""
