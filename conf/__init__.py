"""The configuration tree that Hydra reads, a package so that it is installed with the code."""
