# LibTorch from the pinned wheel (deploy/setup.sh puts it there), as an imported
# target of our own: find_package(Torch) refuses without a CUDA toolkit. A CPU
# program links torch_cpu and c10 only.
#
# Installed with the trainer, and included by EvenstepConfig.cmake.
#
# Debian's Gloo must come before torch_cpu on the link line: torch exports gloo
# symbols of a newer copy of its own.

if(DEFINED ENV{EVENSTEP_TORCH_DIR})
  set(default_torch_dir $ENV{EVENSTEP_TORCH_DIR})
elseif(DEFINED ENV{EVENSTEP_CACHE_DIR})
  set(default_torch_dir $ENV{EVENSTEP_CACHE_DIR}/torch-2.11.0/torch)
else()
  set(default_torch_dir $ENV{HOME}/.cache/evenstep/torch-2.11.0/torch)
endif()
set(EVENSTEP_TORCH_DIR ${default_torch_dir} CACHE PATH
    "Folder with include/ and lib/ of LibTorch 2.11.0")

if(NOT EXISTS ${EVENSTEP_TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR
    "no LibTorch in EVENSTEP_TORCH_DIR=${EVENSTEP_TORCH_DIR}: run "
    "deploy/setup.sh, or configure with -DEVENSTEP_BUILD_TORCH=OFF")
endif()

set(EVENSTEP_CUDART_DIR ${EVENSTEP_TORCH_DIR}/../nvidia/cu13/lib)
find_library(EVENSTEP_GLOO gloo REQUIRED)

# The wheel carries headers of another protobuf under google/: a folder that
# stands before it on the include path leads to Debian's.
set(EVENSTEP_PROTOBUF_SHIM ${CMAKE_BINARY_DIR}/debian-protobuf)
file(MAKE_DIRECTORY ${EVENSTEP_PROTOBUF_SHIM})
list(GET Protobuf_INCLUDE_DIRS 0 protobuf_include_dir)
file(CREATE_LINK ${protobuf_include_dir}/google
     ${EVENSTEP_PROTOBUF_SHIM}/google SYMBOLIC)

# A project may call find_package(Evenstep) more than once.
if(TARGET evenstep_torch)
  return()
endif()
add_library(evenstep_torch INTERFACE IMPORTED GLOBAL)
target_include_directories(
  evenstep_torch SYSTEM
  INTERFACE ${EVENSTEP_PROTOBUF_SHIM} ${EVENSTEP_TORCH_DIR}/include
            ${EVENSTEP_TORCH_DIR}/include/torch/csrc/api/include)
target_link_libraries(
  evenstep_torch INTERFACE ${EVENSTEP_GLOO}
                           ${EVENSTEP_TORCH_DIR}/lib/libtorch_cpu.so
                           ${EVENSTEP_TORCH_DIR}/lib/libc10.so Threads::Threads)
target_link_options(
  evenstep_torch INTERFACE
  -Wl,-rpath,${EVENSTEP_TORCH_DIR}/lib
  -Wl,-rpath,${EVENSTEP_CUDART_DIR}
  -Wl,-rpath-link,${EVENSTEP_TORCH_DIR}/lib
  -Wl,-rpath-link,${EVENSTEP_CUDART_DIR})
