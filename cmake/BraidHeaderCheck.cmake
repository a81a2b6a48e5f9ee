# Target braid_header_check: compiles each header alone, and twice, with the usual warnings. A
# header that leans on what its users happen to include before it fails here.
function(braid_add_header_check)
  file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/include/*.h ${PROJECT_SOURCE_DIR}/src/*.h
    ${PROJECT_SOURCE_DIR}/tests/*.h ${PROJECT_SOURCE_DIR}/benchmarks/*.h)
  set(units)
  foreach(header IN LISTS headers)
    # A header of a part that is not built may need what the part would have found.
    if((header MATCHES "^tests/" AND NOT BRAID_BUILD_TESTS) OR header MATCHES "^tests/install/"
       OR (header MATCHES "^benchmarks/" AND NOT BRAID_BUILD_BENCHMARKS))
      continue()
    endif()
    string(REGEX REPLACE "^(include|src|tests|benchmarks)/" "" spelled ${header})
    set(unit ${PROJECT_BINARY_DIR}/header_check/${header}.cc)
    file(CONFIGURE OUTPUT ${unit} @ONLY
      CONTENT "#include \"@spelled@\"\n#include \"@spelled@\" // again: the guard holds\n")
    list(APPEND units ${unit})
  endforeach()
  get_property(layers GLOBAL PROPERTY BRAID_LAYERS)
  add_library(braid_header_check OBJECT EXCLUDE_FROM_ALL ${units})
  target_include_directories(braid_header_check PRIVATE ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/benchmarks)
  target_link_libraries(braid_header_check PRIVATE ${layers} braid_options CLI11::CLI11
    nlohmann_json::nlohmann_json spdlog::spdlog
    $<TARGET_NAME_IF_EXISTS:GTest::gmock> $<TARGET_NAME_IF_EXISTS:benchmark::benchmark>)
  set_target_properties(braid_header_check PROPERTIES BRAID_GOOGLETEST ON)
endfunction()
braid_add_header_check()
