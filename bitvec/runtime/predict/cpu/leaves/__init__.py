"""What the leaves add to the scores of rows."""
