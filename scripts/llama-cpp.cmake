# Included at each project() when llama-cpp-python is compiled, see setup.py. Its CMakeLists.txt forces
# the cache entry to ON; a plain variable comes before that. What is left out, llama.cpp's library for
# command-line tools, is no part of the Python package and more than half of the work.
set(LLAMA_BUILD_COMMON OFF)
