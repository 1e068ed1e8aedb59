"""The Redis store: many machines share the work, at the lowest latency. Redis 6.2 or Valkey 7.2, and newer."""
