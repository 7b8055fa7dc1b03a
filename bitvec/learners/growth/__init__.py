"""What End-to-End Decision Trees and Convex Polytope Trees share: growth by trained stumps."""
