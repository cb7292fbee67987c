"""Generated kernels: Triton source written for one step of a plan."""
