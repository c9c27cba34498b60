# Three helpers, so that a room's CMakeLists.txt is a list of names.

# evenstep_library(NAME SRCS a.cc b.cc DEPS evenstep_base absl::status)
function(evenstep_library name)
  cmake_parse_arguments(arg "" "" "SRCS;DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_SRCS})
  target_include_directories(${name} PUBLIC ${evenstep_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${arg_DEPS})
endfunction()

# evenstep_binary(evenstep-worker SRCS main.cc DEPS evenstep_agent)
function(evenstep_binary name)
  cmake_parse_arguments(arg "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${arg_SRCS})
  target_include_directories(${name} PRIVATE ${evenstep_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
endfunction()

# evenstep_test(NAME SRCS a_test.cc DEPS evenstep_base LABEL unit TIMEOUT 60)
# LABEL is one of unit, parity, e2e, fault, deploy. A test that runs alone,
# because it measures time or fills the cores, says SERIAL.
function(evenstep_test name)
  cmake_parse_arguments(arg "SERIAL" "LABEL;TIMEOUT" "SRCS;DEPS;ENV" ${ARGN})
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(EVENSTEP_SANITIZE) # which makes code several times slower
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 10")
  endif()
  add_executable(${name} ${arg_SRCS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                           ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${evenstep_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} GTest::gmock
                                        GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(
    ${name}
    PROPERTIES
      LABELS ${arg_LABEL}
      TIMEOUT ${arg_TIMEOUT}
      RUN_SERIAL ${arg_SERIAL}
      ENVIRONMENT
      "GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/test-results/${name}.xml;EVENSTEP_SOURCE_DIR=${evenstep_SOURCE_DIR};EVENSTEP_BIN_DIR=${CMAKE_BINARY_DIR}/bin;${arg_ENV}"
  )
endfunction()

# evenstep_fuzz(NAME SRCS a_fuzz.cc DEPS evenstep_data CORPUS testdata/a)
# A libFuzzer target, built with clang and -DEVENSTEP_FUZZ=ON only. .ci/fuzz.sh
# runs each for a bounded time over its corpus.
function(evenstep_fuzz name)
  if(NOT EVENSTEP_FUZZ)
    return()
  endif()
  cmake_parse_arguments(arg "" "CORPUS" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${arg_SRCS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                           ${CMAKE_BINARY_DIR}/fuzz)
  target_include_directories(${name} PRIVATE ${evenstep_SOURCE_DIR})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
  if(arg_CORPUS)
    file(WRITE ${CMAKE_BINARY_DIR}/fuzz/${name}.corpus
         ${CMAKE_CURRENT_SOURCE_DIR}/${arg_CORPUS})
  endif()
  add_dependencies(evenstep_fuzz_targets ${name})
endfunction()

if(EVENSTEP_FUZZ)
  add_custom_target(evenstep_fuzz_targets)
endif()
