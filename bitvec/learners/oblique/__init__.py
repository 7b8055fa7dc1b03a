"""Oblique forests: complete trees with leaf vectors, trained all at once."""
