"""What stands in the keys and in the arguments and answers of scripts, as values of the core."""
