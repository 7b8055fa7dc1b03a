"""Gain of retraining: test scores of hard forests before and after, on real data.

    python -m benchmarks.retrain --data FOLDER [--baselines-dir FOLDER] [--seeds 3] [--quick]
                                 [--json] [--only NAME] [--save]

Single trees with S, b and v free; forests and boosters with S fixed, written back into the library
that they came from; other libraries' fine-tuning beside ours. The source model is fitted on 85 % of
the rows to train on, everything is chosen by the other 15 %, and the rows to test on are scored
once for each figure. `--make-baselines` makes the environments of the other libraries in
`--baselines-dir`; `--only NAME` measures the cases whose name contains it.
"""

from benchmarks.retrain.tables import baseline_table, forest_table, selection_table, table

__all__ = ["baseline_table", "forest_table", "selection_table", "table"]
