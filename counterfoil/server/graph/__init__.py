"""The picture of a chain: steps as nodes, dependencies as edges, and how each stands. Pure: views in, text out.

Nothing here reads a ledger, knows MCP or decides anything.
"""

from __future__ import annotations

from .making import Facts, graph_of
from .mermaid import mermaid
from .model import Edge, EdgeKind, Graph, Node, Undone
from .svg import svg

__all__ = ["Edge", "EdgeKind", "Facts", "Graph", "Node", "Undone", "graph_of", "mermaid", "svg"]
