"""pint takes numpy for missing in the tools' process; hypothesis wants it, so it comes first."""

import numpy  # noqa: F401
