# Packaging: one library of all layers, its exported target braid::braid, a package for
# find_package(braid), a pkg-config file, the public headers and the programs.
include(CMakePackageConfigHelpers)

get_property(layers GLOBAL PROPERTY BRAID_LAYERS)
set(layer_objects)
set(layer_needs)
foreach(layer IN LISTS layers)
  list(APPEND layer_objects $<TARGET_OBJECTS:${layer}>)
  get_target_property(needs ${layer} INTERFACE_LINK_LIBRARIES)
  list(APPEND layer_needs ${needs})
endforeach()
# Layers use nlohmann_json by its headers, in source files only.
list(FILTER layer_needs EXCLUDE REGEX "braid_|NOTFOUND|nlohmann_json")
# Static layers list what they keep private as link-only; here all of it is private.
list(TRANSFORM layer_needs REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1")
list(REMOVE_DUPLICATES layer_needs)

# Static, or shared with BUILD_SHARED_LIBS.
add_library(braid ${layer_objects})
add_library(braid::braid ALIAS braid)
set_target_properties(braid PROPERTIES
  LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_include_directories(braid INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(braid INTERFACE cxx_std_20)
target_link_libraries(braid PRIVATE ${layer_needs} $<BUILD_INTERFACE:braid_options>)

# What consumers must find: packages by find_package, libraries by pkg-config.
set(braid_cmake_packages)
set(braid_pkgconfig_names)
set(braid_pc_modules)
set(braid_pc_libs)
foreach(need IN LISTS layer_needs)
  if(need MATCHES "^PkgConfig::(.+)$")
    list(APPEND braid_pkgconfig_names ${CMAKE_MATCH_1})
    list(APPEND braid_pc_modules lib${CMAKE_MATCH_1})
  elseif(need STREQUAL "Threads::Threads")
    list(APPEND braid_cmake_packages Threads)
    string(APPEND braid_pc_libs " -pthread")
  elseif(need MATCHES "^(.+)::.+$")
    list(APPEND braid_cmake_packages ${CMAKE_MATCH_1})
    list(APPEND braid_pc_modules ${CMAKE_MATCH_1})
  elseif(need)
    string(APPEND braid_pc_libs " -l${need}")
  endif()
endforeach()
if(BUILD_SHARED_LIBS)
  set(braid_pc_requires "Requires.private")
  set(braid_cmake_packages)
  set(braid_pkgconfig_names)
  set(braid_pc_libs)
else()
  set(braid_pc_requires "Requires")
endif()
list(REMOVE_DUPLICATES braid_cmake_packages)
list(JOIN braid_pc_modules ", " braid_pc_modules)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/braid)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
# The prefix as seen from the file, so that an installed tree can be moved.
file(RELATIVE_PATH braid_pc_to_prefix /prefix/${pkgconfig_dir} /prefix)
string(REGEX REPLACE "/$" "" braid_pc_to_prefix "${braid_pc_to_prefix}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/braid.pc.in ${PROJECT_BINARY_DIR}/braid.pc @ONLY)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/braidConfig.cmake.in
  ${PROJECT_BINARY_DIR}/braidConfig.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0.0 a minor step may break callers.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/braidConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)

install(TARGETS braid EXPORT braidTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT braidTargets NAMESPACE braid:: DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/braidConfig.cmake
  ${PROJECT_BINARY_DIR}/braidConfigVersion.cmake DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/braid.pc DESTINATION ${pkgconfig_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/braid DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")

# Every program and loadable library that a folder below src defines.
function(braid_install_products dir)
  get_property(targets DIRECTORY ${dir} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type MATCHES "^(EXECUTABLE|MODULE_LIBRARY|SHARED_LIBRARY)$")
      install(TARGETS ${target}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    endif()
  endforeach()
  get_property(subdirectories DIRECTORY ${dir} PROPERTY SUBDIRECTORIES)
  foreach(subdirectory IN LISTS subdirectories)
    braid_install_products(${subdirectory})
  endforeach()
endfunction()
braid_install_products(${PROJECT_SOURCE_DIR}/src)
