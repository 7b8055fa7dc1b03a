"""Convex Polytope Trees: nodes that ask whether x lies in a convex polytope."""
