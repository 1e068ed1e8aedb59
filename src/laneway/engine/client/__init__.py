"""What callers do: submit runs, read them, follow their events, operate the store."""
