"""Relaxing a forest, training it, and hardening and pruning the result."""
