# CUDA and NCCL for evenstep-trainer-cuda: from a toolkit, or from the wheels
# that deploy/setup-cuda.sh lays beside LibTorch. Only headers and libraries are
# needed, no nvcc. The binary links here and starts on a machine with a GPU.

get_filename_component(wheels ${EVENSTEP_TORCH_DIR}/../nvidia ABSOLUTE)
set(cuda_places $ENV{CUDA_HOME} /usr/local/cuda ${wheels}/cu13 ${wheels}/nccl)

find_path(EVENSTEP_CUDA_INCLUDE cuda_runtime_api.h
          PATHS ${cuda_places} PATH_SUFFIXES include NO_DEFAULT_PATH)
find_path(EVENSTEP_NCCL_INCLUDE nccl.h
          PATHS ${cuda_places} PATH_SUFFIXES include NO_DEFAULT_PATH)
find_library(EVENSTEP_CUDART NAMES cudart libcudart.so.13
             PATHS ${cuda_places} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
find_library(EVENSTEP_NCCL NAMES nccl libnccl.so.2
             PATHS ${cuda_places} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)

foreach(part EVENSTEP_CUDA_INCLUDE EVENSTEP_NCCL_INCLUDE EVENSTEP_CUDART
             EVENSTEP_NCCL)
  if(NOT ${part})
    message(FATAL_ERROR
      "${part} not found in ${cuda_places}: run deploy/setup-cuda.sh, or "
      "configure without -DEVENSTEP_BUILD_CUDA=ON")
  endif()
endforeach()

add_library(evenstep_cuda INTERFACE)
target_include_directories(
  evenstep_cuda SYSTEM INTERFACE ${EVENSTEP_CUDA_INCLUDE}
                                 ${EVENSTEP_NCCL_INCLUDE})
# libtorch_cuda registers its kernels when it is loaded, and nothing names it;
# its own dependencies (cuDNN and others) are those of the machine that runs it.
target_link_libraries(
  evenstep_cuda
  INTERFACE evenstep_torch
            -Wl,--no-as-needed
            ${EVENSTEP_TORCH_DIR}/lib/libtorch_cuda.so
            ${EVENSTEP_TORCH_DIR}/lib/libc10_cuda.so
            ${EVENSTEP_NCCL}
            ${EVENSTEP_CUDART}
            -Wl,--as-needed)
target_link_options(evenstep_cuda INTERFACE -Wl,--allow-shlib-undefined)
