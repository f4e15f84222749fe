"""llama.cpp's libraries, of which some are looked for by name when the program runs."""

from pathlib import Path

from PyInstaller.utils.hooks import get_package_paths

_LIBRARIES = {".so", ".dylib", ".dll", ".metal"}

_folder = Path(get_package_paths("llama_cpp")[1], "lib")
binaries = [
    (str(path), "llama_cpp/lib")
    for path in sorted(_folder.iterdir())
    if _LIBRARIES.intersection(path.suffixes)
]
