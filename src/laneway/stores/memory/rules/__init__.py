"""The core's decisions applied to records in memory: accept, control, settle, take over, wake."""
