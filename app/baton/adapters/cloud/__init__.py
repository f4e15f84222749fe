"""Workers elsewhere: every call to them goes through the gateway child."""
