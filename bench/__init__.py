"""How fast laneway is, as ratios to what the machine can do: `python -m bench`. See `docs/benchmarks.md`."""
