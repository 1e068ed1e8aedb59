"""The Redis client: addresses, connections, retries, pub/sub and scripts. It knows nothing of runs."""
