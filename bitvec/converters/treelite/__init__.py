"""treelite: models and checkpoints, with the semantics of its own inference, and written back."""
