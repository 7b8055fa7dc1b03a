"""What one does with a Forest: run it, relax and retrain it, export it."""
