"""The verbs of the store, by subject: `control.py` calls the scripts of `lua/verbs/control/`."""
