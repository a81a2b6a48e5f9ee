set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

add_library(braid_options INTERFACE)
set(is_googletest $<BOOL:$<TARGET_PROPERTY:BRAID_GOOGLETEST>>)
target_compile_options(braid_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Woverloaded-virtual -Wcast-align -Wimplicit-fallthrough -fno-strict-aliasing
  -fno-semantic-interposition
  $<$<BOOL:${BRAID_WERROR}>:-Werror>
  # verbs.h and 128-bit products use GNU extensions that -Wpedantic would name in our files.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-gnu-anonymous-struct -Wno-nested-anon-types>
  # GoogleTest's macros define globals with constructors, so its programs are exempt.
  $<$<CXX_COMPILER_ID:Clang>:$<$<NOT:${is_googletest}>:-Wglobal-constructors>>)
if(BRAID_SANITIZE)
  target_compile_options(braid_options INTERFACE
    -fsanitize=${BRAID_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(braid_options INTERFACE -fsanitize=${BRAID_SANITIZE})
endif()
if(BRAID_FUZZ)
  target_compile_options(braid_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# braid_add_layer(NAME SOURCES... [DEPENDS layers and libraries...])
# One static library per layer, so that the linker enforces the direction of the layers.
function(braid_add_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(braid_${name} STATIC ${ARG_SOURCES})
  target_include_directories(braid_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  target_link_libraries(braid_${name} PUBLIC ${ARG_DEPENDS} PRIVATE braid_options)
  set_property(GLOBAL APPEND PROPERTY BRAID_LAYERS braid_${name})
endfunction()

# braid_add_program(NAME SOURCES... [DEPENDS ...]): a program in build/bin.
function(braid_add_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} braid_options)
endfunction()

# braid_add_test(NAME SOURCES... [DEPENDS ...] [LABELS ...] [TIMEOUT s] [REPLACES_NEW]):
# a GoogleTest program. REPLACES_NEW: it defines operator new, as ThreadSanitizer's runtime does
# too, so it is left out there.
function(braid_add_test name)
  cmake_parse_arguments(ARG "REPLACES_NEW" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(ARG_REPLACES_NEW AND BRAID_SANITIZE MATCHES "thread")
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(BRAID_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 6")
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gtest GTest::gmock GTest::gtest_main
    braid_options)
  set_target_properties(${name} PROPERTIES
    BRAID_GOOGLETEST ON RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  # Tests in real time share the processors with nothing that could make a deadline pass.
  if(net IN_LIST ARG_LABELS OR preload IN_LIST ARG_LABELS)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()
