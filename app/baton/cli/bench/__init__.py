"""`baton bench`: strategies and conductors compared."""
