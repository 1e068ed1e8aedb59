"""The worker: its loop, the attempts that it executes, and how it starts and stops."""
