"""`laneway worker` and `drain`: processes that execute runs."""
