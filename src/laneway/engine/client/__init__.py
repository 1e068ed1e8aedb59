"""What callers ask: submitting runs, reading them, following their events, operating the store."""
