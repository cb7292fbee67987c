"""Cost models: one TOML file per card. See README.md."""
