"""Tests of bitvec, and the models that they share with the benchmarks."""
