"""xgboost: boosters, estimators and their files, read without the library, and written back."""
