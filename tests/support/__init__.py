"""What tests of workers elsewhere need: a cloud of our own on loopback."""
