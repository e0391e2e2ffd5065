"""A PostgreSQL store that can be removed again, for tests alone."""

from __future__ import annotations

from loopcore.store.postgres import PostgresStore


class PassingPostgresStore(PostgresStore):
    """A store whose schema is dropped when the test is over."""

    def destroy(self) -> None:
        """Drop the schema with everything in it."""
        import psycopg
        from psycopg import sql

        statement = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(self.schema))
        self.close()
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("SET client_min_messages = warning")
            connection.execute(statement)
