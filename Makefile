# The same commands as `python3 dev.py`; PYTHON= chooses the Python, ARGS= adds arguments.
PYTHON ?= python3
COMMANDS := help demo test test-matrix check coverage bench chaos oracle sync lock clean

.DEFAULT_GOAL := help
.PHONY: $(COMMANDS)

$(COMMANDS):
	@$(PYTHON) dev.py $@ $(ARGS)
