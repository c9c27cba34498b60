# Language level, warnings, ccache, linker, sanitizers and output folders.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(EVENSTEP_CCACHE ccache)
if(EVENSTEP_CCACHE)
  # Paths below the source folder do not count, so checkouts share the cache.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${evenstep_SOURCE_DIR}
               CCACHE_NOHASHDIR=1 ${EVENSTEP_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

add_compile_options(-Wall -Wextra -Werror -Wno-unused-parameter)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options(-Wthread-safety)
endif()

find_program(EVENSTEP_MOLD mold)
if(EVENSTEP_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# With sanitizers gcc 12 sees uninitialized values in StatusOr where none are.
if(EVENSTEP_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-maybe-uninitialized)
endif()

# vptr: gcc 12 checks another address than the object's where a lambda calls
# through a pointer to member, and the check takes a free descriptor.
if(EVENSTEP_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer
                      -fno-sanitize=vptr -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
elseif(EVENSTEP_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(NOT EVENSTEP_SANITIZE STREQUAL "")
  message(FATAL_ERROR "EVENSTEP_SANITIZE is '${EVENSTEP_SANITIZE}'; "
                      "use address, thread or nothing")
endif()
