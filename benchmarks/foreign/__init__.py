"""Programs of processes apart, which import what they measure and little else."""
