"""The pure core: words of the domain and rules over them. Standard library only, no I/O."""
