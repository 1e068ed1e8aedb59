"""What a clock on the wall shows, when it is changed, and which days a month has."""
