"""What every rule uses: instants, checks, keys, addresses and frozen records."""
