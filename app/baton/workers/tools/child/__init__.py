"""The tools' process: it computes, and runs code in a sandbox."""
