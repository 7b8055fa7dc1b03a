"""Use of a Forest: predict, relax, retrain and export."""
