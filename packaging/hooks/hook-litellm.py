"""litellm, of which Baton lets only those parts work that write requests."""

from pathlib import Path

import contents
from PyInstaller.utils.hooks import copy_metadata, get_package_paths

_folder = Path(get_package_paths("litellm")[1])
hiddenimports = list(filter(contents.keeps_litellm, contents.modules_below("litellm")))
datas = [
    *copy_metadata("litellm"),
    *((str(_folder / name), str(Path("litellm", name).parent)) for name in contents.LITELLM_DATA),
]
