"""What tests of remote workers need: a cloud of our own on loopback."""
