"""The messages of a YDF model, as far as they decide what it predicts."""

from __future__ import annotations

from typing import Final

from bitvec.converters.ydf.protobuf import BLOB, BOOL, DOUBLE, FLOAT, INT, Entry, Schema

MODEL: Final = Schema(
    "header.pb",
    {
        1: Entry("name", BLOB),
        2: Entry("task", INT),
        3: Entry("label_col_idx", INT),
        4: Entry("weights"),
        5: Entry("input_features", INT, repeated=True),
        6: Entry("ranking_group_col_idx"),
        7: Entry("precomputed_variable_importances"),
        8: Entry("classification_outputs_probabilities", BOOL),
        9: Entry("uplift_treatment_col_idx"),
        10: Entry("metadata"),
        11: Entry("hyperparameter_optimizer_logs"),
        12: Entry("is_pure_model"),
        13: Entry("feature_selection_logs"),
        14: Entry("label_entry_age_col_idx"),
        15: Entry("label_event_observed_col_idx"),
    },
)
RANDOM_FOREST: Final = Schema(
    "random_forest_header.pb",
    {
        1: Entry("num_node_shards", INT),
        2: Entry("num_trees", INT),
        3: Entry("winner_take_all_inference", BOOL),
        4: Entry("out_of_bag_evaluations"),
        5: Entry("mean_decrease_in_accuracy"),
        6: Entry("mean_increase_in_rmse"),
        7: Entry("node_format", BLOB),
        8: Entry("num_pruned_nodes"),
    },
)
BOOSTED_TREES: Final = Schema(
    "gradient_boosted_trees_header.pb",
    {
        1: Entry("num_node_shards", INT),
        2: Entry("num_trees", INT),
        3: Entry("loss", INT),
        4: Entry("initial_predictions", FLOAT, repeated=True),
        5: Entry("num_trees_per_iter", INT),
        6: Entry("validation_loss"),
        7: Entry("node_format", BLOB),
        8: Entry("training_logs"),
        9: Entry("output_logits", BOOL),
        10: Entry("loss_configuration"),
    },
)
ISOLATION_FOREST: Final = Schema(
    "isolation_forest_header.pb",
    {
        1: Entry("num_node_shards", INT),
        2: Entry("num_trees", INT),
        3: Entry("node_format", BLOB),
        4: Entry("num_examples_per_trees", INT),
        5: Entry("isolation_forest", BLOB),
    },
)

DATA_SPEC: Final = Schema(
    "data_spec.pb",
    {
        1: Entry("columns", BLOB, repeated=True),
        2: Entry("created_num_rows"),
        3: Entry("unstackeds", BLOB, repeated=True),
    },
)
UNSTACKED: Final = Schema(
    "an unstacked column",
    {
        1: Entry("original_name", BLOB),
        2: Entry("begin_column_idx", INT),
        3: Entry("size", INT),
        4: Entry("type"),
    },
)
COLUMN: Final = Schema(
    "a column",
    {
        1: Entry("type", INT),
        2: Entry("name", BLOB),
        3: Entry("is_manual_type"),
        4: Entry("tokenizer"),
        5: Entry("numerical", BLOB),
        6: Entry("categorical", BLOB),
        7: Entry("count_nas"),
        8: Entry("discretized_numerical", BLOB),
        9: Entry("boolean", BLOB),
        10: Entry("multi_values"),
        11: Entry("is_unstacked", BOOL),
        12: Entry("dtype"),
        13: Entry("numerical_vector_sequence"),
    },
)
NUMERICAL: Final = Schema(
    "a numerical column",
    {
        1: Entry("mean", DOUBLE),
        2: Entry("min_value"),
        3: Entry("max_value"),
        4: Entry("standard_deviation"),
    },
)
CATEGORICAL: Final = Schema(
    "a categorical column",
    {
        1: Entry("most_frequent_value", INT),
        2: Entry("number_of_unique_values", INT),
        3: Entry("min_value_count"),
        4: Entry("max_number_of_unique_values"),
        5: Entry("is_already_integerized", BOOL),
        7: Entry("items", BLOB, repeated=True),
        8: Entry("offset_value_by_one_during_training"),
    },
)
ITEM: Final = Schema("a category", {1: Entry("key", BLOB), 2: Entry("value", BLOB)})
ITEM_VALUE: Final = Schema("the index of a category", {1: Entry("index", INT), 2: Entry("count")})
BOOLEAN: Final = Schema(
    "a boolean column", {1: Entry("count_true", INT), 2: Entry("count_false", INT)}
)
DISCRETIZED: Final = Schema(
    "a discretized column",
    {
        1: Entry("boundaries", FLOAT, repeated=True),
        2: Entry("original_num_unique_values"),
        3: Entry("maximum_num_bins"),
        4: Entry("min_obs_in_bins"),
    },
)

NODE: Final = Schema(
    "a node",
    {
        1: Entry("classifier", BLOB),
        2: Entry("regressor", BLOB),
        3: Entry("condition", BLOB),
        4: Entry("num_pos_training_examples_without_weight"),
        5: Entry("uplift", BLOB),
        6: Entry("anomaly_detection", BLOB),
    },
)
CLASSIFIER: Final = Schema(
    "a classifier's node", {1: Entry("top_value", INT), 2: Entry("distribution", BLOB)}
)
DISTRIBUTION: Final = Schema(
    "a distribution", {1: Entry("counts", DOUBLE, repeated=True), 2: Entry("sum", DOUBLE)}
)
NORMAL: Final = Schema(
    "a normal distribution", {1: Entry("sum"), 2: Entry("sum_squares"), 3: Entry("count")}
)
REGRESSOR: Final = Schema(
    "a regressor's node",
    {
        1: Entry("top_value", FLOAT),
        2: Entry("distribution", BLOB),
        3: Entry("sum_gradients"),
        4: Entry("sum_hessians"),
        5: Entry("sum_weights"),
    },
)
ANOMALY: Final = Schema("an isolation forest's node", {1: Entry("num_examples", INT)})
NODE_CONDITION: Final = Schema(
    "a node's condition",
    {
        1: Entry("na_value", BOOL),
        2: Entry("attribute", INT),
        3: Entry("condition", BLOB),
        4: Entry("num_training_examples_without_weight"),
        5: Entry("num_training_examples_with_weight", DOUBLE),
        6: Entry("split_score", FLOAT),
        7: Entry("num_pos_training_examples_without_weight"),
        8: Entry("num_pos_training_examples_with_weight"),
    },
)
CONDITION: Final = Schema(
    "a condition",
    {
        1: Entry("na", BLOB),
        2: Entry("higher", BLOB),
        3: Entry("true_value", BLOB),
        4: Entry("contains", BLOB),
        5: Entry("contains_bitmap", BLOB),
        6: Entry("discretized_higher", BLOB),
        7: Entry("oblique", BLOB),
        8: Entry("numerical_vector_sequence", BLOB),
    },
)
EMPTY: Final = Schema("a condition without fields", {})
HIGHER: Final = Schema("a threshold", {1: Entry("threshold", FLOAT)})
CONTAINS: Final = Schema("a list of categories", {1: Entry("elements", INT, repeated=True)})
BITMAP: Final = Schema("a bitmap of categories", {1: Entry("elements_bitmap", BLOB)})
DISCRETIZED_HIGHER: Final = Schema("a bin", {1: Entry("threshold", INT)})
OBLIQUE: Final = Schema(
    "an oblique condition",
    {
        1: Entry("attributes", INT, repeated=True),
        2: Entry("weights", FLOAT, repeated=True),
        3: Entry("threshold", FLOAT),
        4: Entry("na_replacements", FLOAT, repeated=True),
    },
)
