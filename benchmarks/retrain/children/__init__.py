"""The programs of other libraries' fine-tuning: each runs in an environment of its own.

They import NumPy and that library only, read `rows.npz` in the folder that they are given, and
leave there the source model as `model`, and `answers.npz` with what each model predicts.
"""
