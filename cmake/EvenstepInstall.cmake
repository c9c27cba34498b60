# cmake --install build/release --prefix PREFIX: public headers, libraries, and
# the package that find_package(Evenstep COMPONENTS sdk trainer) reads.
# Included last, when all targets are known.
#
# A component is a public library with all libraries of ours below it. What both
# components need is exported once, as `core`.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(evenstep_package ${CMAKE_INSTALL_LIBDIR}/cmake/Evenstep)

# The targets of this tree that a target links, itself among them.
function(evenstep_linked_targets out target)
  set(found "")
  set(left ${target})
  while(left)
    list(POP_FRONT left next)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" next "${next}")
    if(NOT TARGET "${next}" OR next IN_LIST found)
      continue()
    endif()
    get_target_property(imported ${next} IMPORTED)
    if(imported)
      continue()
    endif()
    list(APPEND found ${next})
    get_target_property(links ${next} INTERFACE_LINK_LIBRARIES)
    if(links)
      list(APPEND left ${links})
    endif()
  endwhile()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# Include folders of this tree are its own: an installed target has
# PREFIX/include alone.
function(evenstep_keep_includes_inside target)
  foreach(property INTERFACE_INCLUDE_DIRECTORIES
                   INTERFACE_SYSTEM_INCLUDE_DIRECTORIES)
    get_target_property(folders ${target} ${property})
    if(folders)
      list(TRANSFORM folders REPLACE "^[^$].*$" "$<BUILD_INTERFACE:\\0>")
      set_target_properties(${target} PROPERTIES ${property} "${folders}")
    endif()
  endforeach()
endfunction()

function(evenstep_install_targets name)
  foreach(target IN LISTS ARGN)
    evenstep_keep_includes_inside(${target})
  endforeach()
  install(
    TARGETS ${ARGN}
    EXPORT Evenstep_${name}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/evenstep
    INCLUDES
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT Evenstep_${name} NAMESPACE Evenstep::
          DESTINATION ${evenstep_package})
endfunction()

set_target_properties(evenstep_client PROPERTIES EXPORT_NAME sdk)
set_target_properties(evenstep_client_testing PROPERTIES EXPORT_NAME
                                                         sdk_testing)
evenstep_linked_targets(sdk_targets evenstep_client_testing)
evenstep_linked_targets(core_targets evenstep_wire)
list(REMOVE_ITEM sdk_targets ${core_targets})
evenstep_install_targets(core ${core_targets})
evenstep_install_targets(sdk ${sdk_targets})
install(DIRECTORY ${evenstep_SOURCE_DIR}/client/include/
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(EVENSTEP_BUILD_TORCH)
  set_target_properties(evenstep_trainer PROPERTIES EXPORT_NAME trainer)
  evenstep_linked_targets(trainer_targets evenstep_trainer)
  list(REMOVE_ITEM trainer_targets ${core_targets})
  evenstep_install_targets(trainer ${trainer_targets})
  install(DIRECTORY ${evenstep_SOURCE_DIR}/worker/trainer/include/
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(FILES ${evenstep_SOURCE_DIR}/cmake/EvenstepTorch.cmake
          DESTINATION ${evenstep_package})
endif()

# Loaded at run time, by programs that tokenize with SentencePiece.
install(TARGETS evenstep_sentencepiece
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/evenstep)

configure_package_config_file(
  ${evenstep_SOURCE_DIR}/cmake/EvenstepConfig.cmake.in
  ${CMAKE_BINARY_DIR}/EvenstepConfig.cmake
  INSTALL_DESTINATION ${evenstep_package}
  PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/EvenstepConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(
  FILES ${CMAKE_BINARY_DIR}/EvenstepConfig.cmake
        ${CMAKE_BINARY_DIR}/EvenstepConfigVersion.cmake
        ${evenstep_SOURCE_DIR}/cmake/EvenstepDependencies.cmake
  DESTINATION ${evenstep_package})
