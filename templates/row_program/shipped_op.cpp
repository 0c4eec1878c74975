#include "templates/row_program/shipped_op.h"

#include "templates/row_program/language/programs.h"
#include "tunesmith/error.h"

namespace tunesmith {

std::vector<FieldInfo> ShippedProgramOp::problem_fields() const {
  std::vector<FieldInfo> fields = row_program_.problem_fields();
  std::erase_if(fields, [](const FieldInfo& field) { return field.name == "program"; });
  return fields;
}

ParsedProblemPtr ShippedProgramOp::parse(const Problem& problem) const {
  const Value* const program = problem.fields.find("program");
  if (program != nullptr && *program != Value(row_program::shipped_program(name_)))
    throw Error(ErrorCode::invalid_argument, name_, " has no field 'program'; use row_program for your own");
  return row_program_.parse({std::string(row_program_.name()), with_program(problem.fields)});
}

std::vector<DescribedField> ShippedProgramOp::describe_fields(const Fields& known) const {
  std::vector<DescribedField> fields = row_program_.describe_fields(with_program(known));
  std::erase_if(fields, [](const DescribedField& field) { return field.name == "program"; });
  return fields;
}

std::vector<ArrayInfo> ShippedProgramOp::describe_arrays(const Fields& known) const {
  return row_program_.describe_arrays(with_program(known));
}

Fields ShippedProgramOp::infer_fields(const Fields& known, std::string_view array,
                                      std::span<const std::int64_t> shape) const {
  return row_program_.infer_fields(with_program(known), array, shape);
}

Fields ShippedProgramOp::with_program(Fields fields) const {
  fields.set("program", row_program::shipped_program(name_));
  return fields;
}

}  // namespace tunesmith
