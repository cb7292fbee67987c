"""Executing plans: node by node, through Inductor, or as generated kernels."""
