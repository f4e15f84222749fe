# Included at each project() when llama-cpp-python is compiled, see setup.py.

# What is left out, llama.cpp's library for command-line tools, isn't part of the Python package and more
# than half of the work. A plain variable, because CMakeLists.txt forces the cache entry to ON.
set(LLAMA_BUILD_COMMON OFF)

# On processors with AMX llama.cpp crashes at its first token: GCC believes that _tile_loadconfig reads 8
# bytes of its 64, and leaves out as dead what is stored in the others (llama.cpp's issue 20824).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fno-dse)
endif()
