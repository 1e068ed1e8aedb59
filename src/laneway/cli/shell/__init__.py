"""What all commands stand on: groups and options, errors, tables, words."""
