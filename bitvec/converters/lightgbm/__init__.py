"""LightGBM: boosters, estimators and text files into a Forest, and text again."""
