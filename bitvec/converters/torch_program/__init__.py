"""Programs of torch.export: what `bitvec.export` writes is compared, and nothing is converted."""
