"""scikit-learn: its tree estimators, and skops files of them, into a Forest and back."""
