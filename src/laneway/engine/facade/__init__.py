"""What users hold: the verbs of a scheduler about runs, and the decorators that register tasks."""
