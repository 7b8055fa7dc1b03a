"""Convex Polytope Trees: a node sends a row left if it lies in a soft convex polytope."""
