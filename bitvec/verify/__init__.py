"""Verification: oracles of models, rows that reach every node, proofs and certificates."""
