"""Explanations of forests: Shapley values and interactions of any forest of tests of one column."""
