"""What is declared and stored: policies, runs and their states, leases, events, memos."""
