#include "api/python/src/problem.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "api/c/operations.h"
#include "templates/op.h"
#include "templates/render.h"
#include "templates/row_program/shipped_op.h"
#include "tunesmith/error.h"
#include "tunesmith/row_program.h"

namespace tunesmith::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

const char* role_of(const ArrayInfo& info) { return info.input && info.output ? "inout" : info.input ? "input" : "output"; }

nb::tuple extents(const std::vector<std::int64_t>& values) { return nb::tuple(nb::cast(values)); }

const char* kind_of(const FieldInfo& field) {
  switch (field.kind) {
    case FieldKind::integer: return "int";
    case FieldKind::real: return "float";
    case FieldKind::flag: return "bool";
    case FieldKind::choice: return "choice";
    case FieldKind::text: return "str";
  }
  return "";
}

nb::dict to_dict(const Fields& fields) {
  nb::dict result;
  for (const auto& [name, value] : fields) std::visit([&](const auto& held) { result[name.c_str()] = held; }, value);
  return result;
}

CheckedFields checked(const std::string& op, const nb::dict& fields) {
  require_operation(op);
  CheckedFields result{{op, fields_from(fields)}, {}, {}};
  CheckedProblem known = check_problem(result.problem);
  result.normal_form = std::move(known.text);
  result.arrays = std::move(known.arrays);
  return result;
}

std::string render_source(const CheckedFields& problem, const std::string& arch, const nb::object& config) {
  const ParsedProblemPtr parsed = find_op(problem.problem.op).parse(problem.problem);
  const DeviceInfo device = generic_device(parse_arch(arch));
  return render(*parsed, parsed->complete_config(device, config_from(config)));
}

/// Returns the value of an int, or of an object that stands for one, such as numpy.int64.
std::int64_t integer_from(nb::handle value, const std::string& name) {
  const nb::object integer = nb::steal(PyNumber_Index(value.ptr()));
  if (!integer.is_valid()) throw nb::python_error();
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow);
  if (overflow != 0) throw Error(ErrorCode::invalid_argument, name, " does not fit 64 bits; expected an integer of 64 bits");
  return number;
}

}  // namespace

Fields fields_from(nb::handle dictionary) {
  Fields fields;
  PyObject *key = nullptr, *item = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(dictionary.ptr(), &at, &key, &item) != 0;) {
    const auto name = nb::cast<std::string>(nb::handle(key));
    const nb::handle value(item);
    if (value.is_none()) continue;
    if (PyBool_Check(value.ptr()))
      fields.set(name, std::int64_t{nb::cast<bool>(value)});
    else if (nb::isinstance<nb::str>(value))
      fields.set(name, nb::cast<std::string>(value));
    else if (nb::isinstance<nb::float_>(value))
      fields.set(name, nb::cast<double>(value));
    else if (PyIndex_Check(value.ptr()) != 0)
      fields.set(name, integer_from(value, name));
    else if (nb::hasattr(value, "__float__"))  // such as numpy.float32
      fields.set(name, nb::cast<double>(nb::steal(PyNumber_Float(value.ptr()))));
    else
      throw nb::type_error(
          (name + " is a " + nb::cast<std::string>(nb::inst_name(value)) + "; expected bool, int, float or str").c_str());
  }
  return fields;
}

Config config_from(nb::handle config) {
  if (config.is_none()) return {};
  if (nb::isinstance<nb::str>(config)) return {parse_fields(nb::cast<std::string>(config), "config")};
  if (!nb::isinstance<nb::dict>(config)) throw nb::type_error("config is neither a str nor a dict");
  return {fields_from(config)};
}

void bind_problem(nb::module_& module) {
  nb::class_<ArrayInfo>(module, "Array", "An array of a problem: its role, element type and layout.")
      .def_prop_ro("name", [](const ArrayInfo& info) { return info.name; })
      .def_prop_ro("role", &role_of, "\"input\", \"output\" or \"inout\" (read and written).")
      .def_prop_ro(
          "dtype", [](const ArrayInfo& info) { return name(info.dtype); },
          "\"f32\", \"f16\", \"bf16\", \"u8\", \"i32\", \"i64\", \"e4m3\", \"e5m2\", \"i8\" or \"f64\".")
      .def_prop_ro(
          "optional", [](const ArrayInfo& info) { return info.optional; }, "A launch accepts None.")
      .def_prop_ro(
          "present", [](const ArrayInfo& info) { return info.present; }, "The problem uses it.")
      .def_prop_ro(
          "shape", [](const ArrayInfo& info) { return extents(info.shape); }, nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "strides", [](const ArrayInfo& info) { return extents(info.strides); },
          nb::sig("def strides(self) -> tuple[int, ...]"), "In elements; 0 repeats the array along a dimension.")
      .def_prop_ro(
          "dims", [](const ArrayInfo& info) { return info.dims; }, "The extents as text: \"rows\", \"batch + 1\".")
      .def_prop_ro("bytes", &ArrayInfo::extent_bytes, "From the address to the end of the last element.")
      .def_prop_ro(
          "alignment", [](const ArrayInfo& info) { return info.alignment; }, "Of the address, in bytes.")
      .def_prop_ro(
          "alignment_field", [](const ArrayInfo& info) { return info.alignment_field; },
          "The field that promises the alignment; empty if there is none.")
      .def_prop_ro(
          "in_place_of", [](const ArrayInfo& info) { return info.in_place_of; },
          "The input that this output overwrites; empty if it has its own memory.")
      .def_prop_ro(
          "in_place_field", [](const ArrayInfo& info) { return info.in_place_field; },
          "The field that decides in_place_of; empty if there is none.")
      .def_prop_ro("meaning", [](const ArrayInfo& info) { return info.meaning; })
      .def("__repr__", [](const ArrayInfo& info) {
        return nb::str("<tunesmith.Array {} {} {} {}>")
            .format(info.name, role_of(info), name(info.dtype), extents(info.shape));
      });

  nb::class_<FieldInfo>(module, "Field", "A field of a problem: its kind, values, default and meaning.")
      .def_prop_ro("name", [](const FieldInfo& field) { return field.name; })
      .def_prop_ro("kind", &kind_of, "\"int\", \"float\", \"bool\", \"choice\" or \"str\".")
      .def_prop_ro("meaning", [](const FieldInfo& field) { return field.meaning; })
      .def_prop_ro(
          "choices", [](const FieldInfo& field) { return field.choices; }, "Allowed strings; empty for numbers.")
      .def_prop_ro(
          "default", [](const FieldInfo& field) { return field.default_text; }, "As text; empty: required.")
      .def_prop_ro(
          "range", [](const FieldInfo& field) { return field.range_text; }, "Allowed numbers as text.")
      .def_prop_ro(
          "option", [](const FieldInfo& field) { return field.option; }, "Neither shape nor element type.")
      .def_prop_ro("hidden", [](const FieldInfo& field) { return field.hidden; });

  nb::class_<CheckedFields>(module, "Problem", "An operation and its fields by name, checked.")
      .def(
          "__init__",
          [](CheckedFields* self, const std::string& op, const nb::kwargs& fields) {
            new (self) CheckedFields(checked(op, nb::cast<nb::dict>(fields)));
          },
          "op"_a, "fields"_a, nb::sig("def __init__(self, op: str, **fields: bool | int | float | str | None) -> None"))
      .def_prop_ro("op", [](const CheckedFields& self) { return self.problem.op; })
      .def_prop_ro(
          "fields", [](const CheckedFields& self) { return to_dict(self.problem.fields); },
          nb::sig("def fields(self) -> dict[str, int | float | str]"), "As given, without defaults.")
      .def_prop_ro(
          "arrays", [](const CheckedFields& self) { return self.arrays; }, "In launch order.")
      .def("source", &render_source, "arch"_a = "sm_90a", "config"_a = nb::none(),
           nb::sig("def source(self, arch: str = 'sm_90a', config: str | dict[str, int | str] | None = None) -> str"),
           "Renders the CUDA source for an architecture, with the default or the given configuration. Needs no GPU.")
      .def("__str__", [](const CheckedFields& self) { return self.normal_form; })
      .def("__repr__", [](const CheckedFields& self) { return "<tunesmith.Problem " + self.problem.short_text() + ">"; });

  module.def("operation_names", &operation_names, "Returns the names of all operations.");
  module.def("operation_summary", &operation_summary, "op"_a, "Returns what an operation computes, in one line.");
  module.def("operation_fields", &operation_fields, "op"_a, "Returns the fields of an operation's problems.");
  module.def(
      "operation_arrays",
      [](const std::string& op, const nb::dict& fields) { return operation_arrays(op, fields_from(fields)); }, "op"_a,
      "fields"_a, nb::sig("def operation_arrays(op: str, fields: dict[str, bool | int | float | str]) -> list[Array]"),
      "Returns the arrays of a partially known problem, absent ones included.");
  module.def(
      "infer_fields",
      [](const std::string& op, const nb::dict& known, const std::string& array, const std::vector<std::int64_t>& shape) {
        return to_dict(infer_operation_fields(op, fields_from(known), array, shape));
      },
      "op"_a, "known"_a, "array"_a, "shape"_a,
      nb::sig("def infer_fields(op: str, known: dict[str, bool | int | float | str], array: str, shape: Sequence[int]) -> "
              "dict[str, int]"),
      "Returns the fields that an array's shape determines.");
  module.def(
      "shipped_program", [](const std::string& name) { return RowProgramText::shipped(name).text(); }, "name"_a,
      "Returns the text of a shipped row program, or of the gradient of one ('rms_norm_gradient').");
  module.def(
      "shipped_program_names",
      [] {
        std::vector<std::string> names;
        for (const Op* op : shipped_program_ops()) names.emplace_back(op->name());
        return names;
      },
      "Returns the shipped row programs that are operations of their own, gradients included.");
  module.def(
      "row_program_gradient", [](const std::string& program) { return RowProgramText(program).gradient().text(); },
      "program"_a, "Returns the row program that computes the gradient of a row program.");
}

}  // namespace tunesmith::python
