"""The engine: where asyncio lives. It calls the core for every decision and a store for every fact."""
