# Included at each project() when the portable llama.cpp is compiled, see llama.py; a plain variable set
# here comes before what llama-cpp-python's CMakeLists.txt puts into the cache.
include("${CMAKE_CURRENT_LIST_DIR}/../scripts/llama-cpp.cmake")

# The backends of GGML_BACKEND_DL are installed by ggml and not by llama-cpp-python: into this folder.
set(CMAKE_INSTALL_BINDIR llama_cpp/lib)
set(CMAKE_INSTALL_LIBDIR llama_cpp/lib)

# One file for each library: a wheel has no links, it would hold each of them three times.
set(CMAKE_PLATFORM_NO_VERSIONED_SONAME ON)

# They find each other in their own folder, and no folder of this machine is written into them.
if(APPLE)
    set(CMAKE_INSTALL_RPATH "@loader_path")
else()
    set(CMAKE_INSTALL_RPATH "$ORIGIN")
endif()
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH OFF)

# Debian 11's GCC, 10, writes the sums of llamafile's multiplication to memory in each round of its inner
# loop, unless it is set to look for stores that can be moved out: a twentieth of reading a prompt.
if(PROJECT_NAME STREQUAL "ggml" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 11)
    cmake_language(DEFER CALL set_source_files_properties
        "${CMAKE_CURRENT_SOURCE_DIR}/src/ggml-cpu/llamafile/sgemm.cpp"
        DIRECTORY src PROPERTIES COMPILE_OPTIONS -fgcse-sm)
endif()
