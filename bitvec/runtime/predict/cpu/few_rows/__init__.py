"""Rows in a single compiled call, from their address to the filled answer.

Few rows run row after row: a layout (`masks`, `walks`, `direct_walks`, `path_walks`) finds a row's
exit leaf in each tree, and `row_scores` adds the leaves in the order of the trees. More run through
a kernel that reads binned columns (`binned_batches`), or walk trees in step (`direct_walks`,
`path_walks`, `lone_tree`), part by part on several threads (`waiting_threads`).
`row_answers` applies the link (`row_links`) and writes probabilities or labels. These parts call
each other by address, so that each is compiled once for all models; behind one address, the
`call_header`, stands all that they read.
"""
