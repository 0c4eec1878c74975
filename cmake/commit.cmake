# cmake -DSOURCE=folder -DOUTPUT=file.cpp -P commit.cmake: writes the commit of the sources as a C++ constant. The file changes
# with the commit only, so that builds of the same commit do nothing.
set(commit "$Format:%h$") # `git archive` writes the commit here (.gitattributes)
if(commit MATCHES "Format")
  execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=* WORKING_DIRECTORY ${SOURCE}
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failure)
  # The checkout of another project may contain this folder.
  if(failure OR NOT EXISTS ${SOURCE}/.git)
    set(commit unknown)
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include "api/cli/doctor/commit.h"

namespace tunesmith::cli {
const char* const commit = "@commit@";
}
]])
