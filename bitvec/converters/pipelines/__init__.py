"""scikit-learn's pipelines, folded into the trees behind them."""
