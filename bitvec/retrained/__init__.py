"""scikit-learn estimators that fit a model, lift it and retrain it: `bitvec.retrained.sklearn`."""
