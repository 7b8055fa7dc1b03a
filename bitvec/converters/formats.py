"""Where models come from: one static table, which dispatch, docs and benchmarks read.

What a format `lifts` are the options of its library; each is measured in `benchmarks.exactness`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bitvec.converters import signatures
from bitvec.converters.signatures import Content

Target = Literal["onnx", "xgboost", "lightgbm", "treelite", "sklearn", "c"]


@dataclass(frozen=True, slots=True)
class Format:
    """A source of models.

    Parameters
    ----------
    name : str
    module : str
        Of its converter, which offers `convert` and `oracle`.
    packages : tuple of str
        Where the classes of its model objects live.
    recognises : callable, optional
        Whether a file is one of its files, by content; None where it has no files.
    made_by : str
        How a file is made.
    lifts : tuple of str
        Options that lift exactly.
    refuses : tuple of (str, str)
        What is refused, and why.
    writes : Target, optional
        What `bitvec.export` calls the way back.
    """

    name: str
    module: str
    packages: tuple[str, ...]
    recognises: Callable[[Content], bool] | None
    made_by: str
    lifts: tuple[str, ...]
    refuses: tuple[tuple[str, str], ...]
    writes: Target | None = None


FORMATS = (
    Format(
        "scikit-learn",
        "bitvec.converters.sklearn",
        ("sklearn",),
        None,
        "",
        (
            "DecisionTree",
            "ExtraTree",
            "RandomForest",
            "ExtraTrees",
            "GradientBoosting",
            "GradientBoosting loss log_loss",
            "GradientBoosting loss exponential",
            "GradientBoosting loss squared_error",
            "GradientBoosting loss absolute_error",
            "GradientBoosting loss huber",
            "GradientBoosting loss quantile",
            "GradientBoosting constant init",
            "HistGradientBoosting",
            "HistGradientBoosting loss log_loss",
            "HistGradientBoosting loss squared_error",
            "HistGradientBoosting loss absolute_error",
            "HistGradientBoosting loss poisson",
            "HistGradientBoosting loss gamma",
            "HistGradientBoosting loss quantile",
            "HistGradientBoosting NaN",
            "HistGradientBoosting integer categories",
            "HistGradientBoosting string categories",
            "IsolationForest",
            "AdaBoostClassifier",
            "AdaBoostRegressor",
            "Bagging",
            "Bagging feature subsets",
            "NaN",
            "multi-output",
            "multi-label",
            "labels of text",
            "labels of bool",
            "labels of float",
            "sample weights",
            "monotonic constraints",
        ),
        (
            ("a Pipeline, search or calibration", "its other steps are no trees: convert the step"),
            ("GradientBoosting with an `init` that is no constant", "it is another model"),
            ("AdaBoost and Bagging over other models", "they are no trees"),
            ("AdaBoost by SAMME.R, before 1.6", "it adds logarithms that no leaf can hold"),
        ),
        "sklearn",
    ),
    Format(
        "scikit-learn file",
        "bitvec.converters.sklearn.skops",
        (),
        signatures.is_skops,
        "skops.io.dump(model, path)",
        ("skops file",),
        (("a pickle or joblib file", "loading it can run any code"),),
    ),
    Format(
        "xgboost",
        "bitvec.converters.xgboost",
        ("xgboost",),
        signatures.is_xgboost,
        "model.save_model(path)",
        (
            "gbtree",
            "dart",
            "multi_output_tree",
            "categories one-hot",
            "categories by partition",
            "num_parallel_tree",
            "best_iteration",
            "iteration range",
            "base_score scalar",
            "base_score vector",
            "base_score estimated",
            "feature names and types",
            "NaN",
            "JSON file",
            "UBJ file",
            "legacy binary file",
            "reg:squarederror",
            "reg:squaredlogerror",
            "reg:pseudohubererror",
            "reg:absoluteerror",
            "reg:quantileerror",
            "reg:logistic",
            "reg:gamma",
            "reg:tweedie",
            "count:poisson",
            "binary:logistic",
            "binary:logitraw",
            "binary:hinge",
            "multi:softprob",
            "multi:softmax",
            "rank:pairwise",
            "rank:ndcg",
            "rank:map",
            "survival:cox",
            "survival:aft",
        ),
        (
            ("gblinear", "it has no trees"),
            ("an objective that is not listed", "its link is not known"),
        ),
        "xgboost",
    ),
    Format(
        "LightGBM",
        "bitvec.converters.lightgbm",
        ("lightgbm",),
        signatures.is_lightgbm,
        "booster.save_model(path)",
        (
            "text file",
            "text file of versions 2 and 3",
            "Booster",
            "scikit-learn wrapper",
            "gbdt",
            "dart",
            "rf",
            "goss",
            "missing None",
            "missing Zero",
            "missing NaN",
            "categories",
            "categories of a data frame",
            "linear_tree",
            "constant trees",
            "best_iteration",
            "multiclass",
            "multiclassova",
            "binary",
            "regression",
            "regression sqrt",
            "regression_l1",
            "huber",
            "fair",
            "poisson",
            "quantile",
            "mape",
            "gamma",
            "tweedie",
            "cross_entropy",
            "cross_entropy_lambda",
            "lambdarank",
            "rank_xendcg",
            "custom",
        ),
        (
            ("the text format before v2", "LightGBM itself no longer reads it"),
            ("the JSON of dump_model", "it is no model file: save the text"),
        ),
        "lightgbm",
    ),
    Format(
        "CatBoost",
        "bitvec.converters.catboost",
        ("catboost",),
        signatures.is_catboost,
        "model.save_model(path, format='json')",
        (
            "JSON file",
            "binary file",
            "fitted model",
            "SymmetricTree",
            "Depthwise",
            "Lossguide",
            "nan_mode Min",
            "nan_mode Max",
            "one-hot categories",
            "texts of categories",
            "labels of text",
            "scale and bias",
            "Logloss",
            "CrossEntropy",
            "MultiClass",
            "MultiClassOneVsAll",
            "MultiLogloss",
            "RMSE",
            "MultiRMSE",
            "RMSEWithUncertainty",
            "Poisson",
            "Tweedie",
            "Quantile",
            "YetiRank",
        ),
        (
            (
                "CTR, text and embedding features",
                "what they read is computed from the training data: the feature is named",
            ),
        ),
    ),
    Format(
        "treelite",
        "bitvec.converters.treelite",
        ("treelite",),
        signatures.is_treelite,
        "model.serialize(path)",
        (
            "Model",
            "checkpoint",
            "imported from xgboost",
            "imported from LightGBM",
            "imported from scikit-learn",
            "built by the model builder",
            "float32",
            "float64",
            "operators < <= > >= ==",
            "category lists of the left child",
            "category lists of the right child",
            "leaf vectors",
            "trees of one class",
            "several targets",
            "averaged trees",
            "identity",
            "identity_multiclass",
            "max_index",
            "signed_square",
            "hinge",
            "sigmoid",
            "multiclass_ova",
            "exponential",
            "exponential_standard_ratio",
            "logarithm_one_plus_exp",
            "softmax",
        ),
        (("checkpoints of treelite 3", "treelite 4 itself no longer reads them"),),
        "treelite",
    ),
    Format(
        "ONNX",
        "bitvec.converters.onnx",
        ("onnx",),
        signatures.is_onnx,
        "onnx.save(model, path)",
        (
            "TreeEnsembleClassifier v1",
            "TreeEnsembleRegressor v1",
            "TreeEnsembleClassifier v3",
            "TreeEnsembleRegressor v3",
            "TreeEnsemble v5",
            "BRANCH_LEQ",
            "BRANCH_LT",
            "BRANCH_GTE",
            "BRANCH_GT",
            "BRANCH_EQ",
            "BRANCH_NEQ",
            "mixed modes",
            "set membership",
            "chains of equalities",
            "missing values",
            "float64",
            "aggregate AVERAGE",
            "aggregate SUM",
            "aggregate MIN",
            "aggregate MAX",
            "post transform NONE",
            "post transform LOGISTIC",
            "post transform SOFTMAX",
            "post transform SOFTMAX_ZERO",
            "post transform PROBIT",
            "labels of text",
            "exported by skl2onnx",
            "exported by onnxmltools",
            "exported by bitvec",
        ),
        (("other operators beside the trees", "they are not part of a forest: they are named"),),
        "onnx",
    ),
    Format(
        "YDF",
        "bitvec.converters.ydf",
        ("ydf",),
        signatures.is_ydf,
        "model.save(directory)",
        (
            "directory",
            "model object",
            "gradient boosted trees",
            "random forest",
            "CART",
            "isolation forest",
            "two classes",
            "several classes",
            "shares",
            "regression",
            "Poisson",
            "absolute error",
            "ranking",
            "numerical conditions",
            "categorical conditions",
            "boolean conditions",
            "sparse oblique conditions",
            "discretized numbers",
            "missing values",
        ),
        (
            ("uplift models", "they answer with an effect, not with a score"),
            ("sets of categories and vector sequences as features", "a cell of X is one number"),
        ),
    ),
    Format(
        "native trees",
        "bitvec.converters.native",
        ("bitvec.converters.native", "bitvec.learners", "bitvec.learners.retrained"),
        None,
        "",
        (
            "CPT",
            "E2EDT",
            "E2EDF",
            "KDDT",
            "KDDTForest",
            "TAO",
            "one-feature tests",
            "oblique tests",
            "facets",
            "feature maps",
            "bandwidths",
            "linear leaves",
        ),
        (),
    ),
)
"""In the order in which a file's content is asked about: the surest signatures first."""
