"""Programs of other libraries' fine-tuning, each for an environment of its own.

They import NumPy and that library only, and leave the source model as `model` in the folder of
their job, and as answers what each model predicts.
"""
