"""Pictures of End-to-End Decision Trees: θ as images, the tree, soft and hard answers.

Every function returns a `matplotlib.figure.Figure`, which needs no display; save it with `savefig`.
"""

from __future__ import annotations

from bitvec.learners.e2edt.plane_pictures import draw_annealing as draw_annealing
from bitvec.learners.e2edt.plane_pictures import draw_posterior as draw_posterior
from bitvec.learners.e2edt.tree_pictures import draw_tree as draw_tree
from bitvec.learners.e2edt.tree_pictures import draw_weights as draw_weights
