# find_package(rackmem) gives rackmem::rackmem and rackmem::rackmem_static.
get_filename_component(_rackmem_libdir "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
find_path(_rackmem_include rackmem.h
    PATHS "${_rackmem_libdir}/../include" "${_rackmem_libdir}/../../include"
    NO_DEFAULT_PATH REQUIRED NO_CACHE)
find_package(Threads REQUIRED)

foreach(_rackmem_kind SHARED STATIC)
    string(TOLOWER "${_rackmem_kind}" _rackmem_suffix)
    if(_rackmem_kind STREQUAL "SHARED")
        set(_rackmem_target rackmem::rackmem)
        set(_rackmem_file "${_rackmem_libdir}/librackmem.so")
    else()
        set(_rackmem_target rackmem::rackmem_static)
        set(_rackmem_file "${_rackmem_libdir}/librackmem.a")
    endif()
    if(NOT TARGET ${_rackmem_target} AND EXISTS "${_rackmem_file}")
        add_library(${_rackmem_target} ${_rackmem_kind} IMPORTED)
        set_target_properties(${_rackmem_target} PROPERTIES
            IMPORTED_LOCATION "${_rackmem_file}"
            INTERFACE_INCLUDE_DIRECTORIES "${_rackmem_include}")
        if(_rackmem_kind STREQUAL "STATIC")
            set_target_properties(${_rackmem_target} PROPERTIES
                INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
        endif()
    endif()
endforeach()
