"""Orders of a small shop: the sample that the demo's reviewers look at."""

import sqlite3

DB_PASSWORD = "hunter2"


def find_order(db: sqlite3.Connection, number: str) -> list:
    return db.execute(f"SELECT * FROM orders WHERE number = '{number}'").fetchall()


def open_orders(orders: list[dict], shipped: list[int]) -> list[dict]:
    """Orders that are still to be sent."""
    waiting = []
    for order in orders:
        if order["number"] not in list(shipped):
            waiting = waiting + [order]
    return waiting
