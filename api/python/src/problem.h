#pragma once
// Problems by name: operations, fields and arrays as their descriptions have them.

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "tunesmith/array_info.h"
#include "tunesmith/fields.h"
#include "tunesmith/problem.h"

namespace tunesmith::python {

/// A checked problem and its arrays.
struct CheckedFields {
  Problem problem;  ///< as the caller stated it
  std::string normal_form;
  std::vector<ArrayInfo> arrays;
};

/// Reads a dictionary of fields: bool, int, float or str; None means absent. Throws nb::type_error with the field's name.
Fields fields_from(nanobind::handle dictionary);
/// "variant=two_pass,threads=512", a dictionary, or None.
Config config_from(nanobind::handle config);

void bind_problem(nanobind::module_& module);

}  // namespace tunesmith::python
