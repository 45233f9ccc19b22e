# The target tvm_disc::tvm_disc: the header tvm_disc.h, and TVM's runtime that a saved program needs.
#
#   find_package(tvm_disc REQUIRED)
#   target_link_libraries(my_program PRIVATE tvm_disc::tvm_disc)
#
#   cmake -B build -Dtvm_disc_DIR=$(python -c "import tvm_disc; print(tvm_disc.cmake_dir())")
#
# TVM's packages are those beside tvm_disc, otherwise those of Python3_EXECUTABLE.

# The type makes a relative path of the command line absolute, from the directory where cmake runs.
if(DEFINED CACHE{Python3_EXECUTABLE})
  set(Python3_EXECUTABLE "" CACHE FILEPATH "Python in whose packages TVM's runtime is installed")
endif()
get_filename_component(tvm_disc_packages "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
set(find "from importlib.util import find_spec as f; s = f('%'); print(s and s.submodule_search_locations[0] or '')")
foreach(package tvm tvm_ffi)
  set(${package}_dir "${tvm_disc_packages}/${package}")
  if(IS_DIRECTORY "${${package}_dir}/lib" AND NOT DEFINED CACHE{Python3_EXECUTABLE})
    continue()
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  string(REPLACE "%" ${package} script "${find}")
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c "${script}"
    OUTPUT_VARIABLE ${package}_dir OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  if(NOT ${package}_dir)
    message(FATAL_ERROR "expected a Python with the package ${package}, found ${Python3_EXECUTABLE} "
      "without it: give the Python that tvm_disc is installed in by -DPython3_EXECUTABLE=...")
  endif()
endforeach()
find_library(TVM_FFI tvm_ffi PATHS ${tvm_ffi_dir}/lib NO_DEFAULT_PATH REQUIRED)
find_library(TVM_RUNTIME tvm_runtime PATHS ${tvm_dir}/lib NO_DEFAULT_PATH REQUIRED)

if(NOT TARGET tvm_disc::tvm_disc)
  add_library(tvm_disc::tvm_disc INTERFACE IMPORTED)
  target_compile_features(tvm_disc::tvm_disc INTERFACE cxx_std_17)
  target_include_directories(
    tvm_disc::tvm_disc SYSTEM INTERFACE "${CMAKE_CURRENT_LIST_DIR}" ${tvm_ffi_dir}/include)
  # The program calls the runtime's thread pool by name, which no symbol of the caller mentions.
  target_link_options(tvm_disc::tvm_disc INTERFACE -Wl,--no-as-needed)
  target_link_libraries(tvm_disc::tvm_disc INTERFACE ${TVM_FFI} ${TVM_RUNTIME} ${CMAKE_DL_LIBS})
endif()
