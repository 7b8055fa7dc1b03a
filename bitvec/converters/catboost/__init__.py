"""CatBoost: JSON models, fitted models and binary files into a Forest."""
