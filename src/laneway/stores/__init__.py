"""Where runs live: one package or module per store, all of one meaning (`tests/contract`)."""
