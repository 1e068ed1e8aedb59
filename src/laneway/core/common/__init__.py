"""What all rules use: instants, checks, keys, addresses and frozen records."""
