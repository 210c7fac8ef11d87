"""What the tables of every file share: the one `metadata`, and the column of a table that is counted up."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Identity, Integer, MetaData

metadata = MetaData()


def sequence() -> Column[int]:
    """A primary key that the database counts up."""
    return Column("id", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True)
