"""What users hold: the methods of a scheduler about runs, and the decorators that register tasks."""
