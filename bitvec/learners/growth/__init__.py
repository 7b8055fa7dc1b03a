"""Growth by trained stumps, shared by End-to-End Decision Trees and Convex Polytope Trees."""
