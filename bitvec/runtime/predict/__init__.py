"""Engines that run a forest, and the tables that they read."""
