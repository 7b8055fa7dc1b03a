"""Animation of the page on relaxations: soft trees of two columns whose steepness γ rises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GAMMAS: Final = (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 256, 4096)
SECONDS: Final = 0.7
"""Length of a frame; the last one stays for five."""


def draw(folder: Path) -> None:
    """Write the animation as SVG."""
    svg.write_animation([*_frames()], folder / "annealing.svg", SECONDS)


def _frames() -> Iterator[Figure]:
    """Yield a figure for each γ: two relaxations of a tree, and the tree."""
    import torch
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    import bitvec
    from bitvec.plots.forests import draw_boundaries

    data = load_breast_cancer()
    X, y = StandardScaler().fit_transform(data.data[:150, :2]), data.target[:150]
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)
    forest = bitvec.convert(tree)
    soft = bitvec.to_torch(forest, "sigmoid", dtype=torch.float64).calibrate(X)
    v = torch.tensor(forest.leaves.v, dtype=torch.float64)
    B = torch.tensor(forest.B.T, dtype=torch.float64)
    scale = (X[:, forest.tests.column] - forest.tests.b).std(axis=0)

    def product_of_gates(Z: Any) -> Any:
        with torch.no_grad():
            return (soft.memberships(Z) @ v)[:, 1].numpy()

    def softmax_of_scores(Z: Any) -> Any:
        margin = torch.tensor((Z[:, forest.tests.column] - forest.tests.b) / scale)
        u = torch.softmax(soft.gamma * (torch.sigmoid(soft.gamma * margin) @ B), dim=1)
        return (u @ v)[:, 1].numpy()

    names = [f"{name}, standardised" for name in data.feature_names[:2]]
    for gamma in GAMMAS:
        soft.gamma = float(gamma)
        surfaces = [
            (f"sigmoid, γ = {gamma:,}", product_of_gates),
            (f"softmax of B · σ, γ = {gamma:,}", softmax_of_scores),
            ("the tree", lambda Z: tree.predict_proba(Z)[:, 1]),
        ]
        yield draw_boundaries(surfaces, X, y, names, resolution=100)
