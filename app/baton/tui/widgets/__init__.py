"""The parts of the screens. Messages go up, attributes and calls go down."""
