"""One row to a few hundred: a single compiled call from the rows' address to the filled answer.

A call runs row after row. A layout (`masks`, `walks`, `lone_tree`) finds the row's exit leaf in
each tree, `row_scores` adds the leaves in the order of the trees, and `row_answers` applies the
link and writes probabilities or labels. These parts call each other by address, so that each is
compiled once for all models; behind one address, the `call_header`, stands all that they read.
"""
