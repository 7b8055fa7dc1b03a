"""Figures of forests and trees."""
