"""YDF (Yggdrasil Decision Forests): models and model directories into a Forest."""
