"""What holds for all tests."""

import signal

# A shell that starts the tests in the background makes them, and all they start, ignore Ctrl-C; some tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
