"""Tests on a real SLURM, which they start for themselves."""
