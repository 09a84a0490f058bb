"""What the command line and Python users both call; modules are named like those in `cli`. Nothing here prints."""
