"""Where the providers' keys are: the system's keyring, the environment, or a plaintext file.

Used by the gateway child, which alone keeps them in memory, and by `baton keys`. Looked for in that
order; the file exists only where the person said yes to it.
"""
