"""The tables of `parley.toml`, in a module for each subject; `Settings` in `config/settings.py` has one of each."""
