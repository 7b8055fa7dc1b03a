"""Engine of Triton kernels: rows become planes of codes once, trees compare codes."""
