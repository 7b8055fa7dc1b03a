"""scikit-learn estimators that fit a model, convert it and retrain it."""
