"""Certificates: what answers for a model, rows that reach every node, and proofs."""
