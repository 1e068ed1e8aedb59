"""The worker: its loop, the attempts it executes, and how it starts and stops."""
