"""The Forest and its parts, and the literal reference: knows no other library."""
