"""The metadata log in SQL: SQLite by default, PostgreSQL by URL. Importing this takes SQLAlchemy, some 200 ms."""

from tailrace_controller.store.sqlite import sqlite_path
from tailrace_controller.store.store import Store

__all__ = ["Store", "sqlite_path"]
