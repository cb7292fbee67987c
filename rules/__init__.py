"""The laws: one file a family, each law a function. See README.md before adding one."""
