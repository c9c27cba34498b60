# What comes from Debian. Each library is found once, here. Installed with the
# libraries, and included by EvenstepConfig.cmake.

find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(yaml-cpp CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(GIF REQUIRED)
find_package(ZLIB REQUIRED)

find_package(PkgConfig REQUIRED)
pkg_check_modules(grpcpp REQUIRED IMPORTED_TARGET grpc++)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)

# The rest is for the programs and tests of this tree.
if(EVENSTEP_INSTALLED)
  return()
endif()
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark CONFIG REQUIRED)
pkg_check_modules(sqlite3 REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
find_library(EVENSTEP_GRPC_REFLECTION grpc++_reflection REQUIRED)
find_program(EVENSTEP_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)
