#include "templates/row_program/emit/kernel_params.h"

#include <algorithm>

#include "templates/row_program/emit/device_text.h"

namespace tunesmith::row_program {

std::string address_member(const std::string& array) { return array + "_address"; }
std::string stride_member(const std::string& array) { return array + "_stride"; }
std::string columns_member(const std::string& array) { return array + "_cols"; }
std::string vectors_member(const std::string& array) { return array + "_vectors"; }
std::string number_member(const std::string& number) { return number + "_number"; }

int first_full_array(const Program& program) {
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].kind == Kind::full) return static_cast<int>(i);
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    if (program.outputs[i].kind == Kind::full) return static_cast<int>(program.inputs.size() + i);
  return -1;
}

row::RowAddresses addresses_of_rows(const Program& program) {
  const int first = first_full_array(program);
  row::RowAddresses addresses;
  int at = 0;
  const auto add = [&](const auto& arrays, std::vector<std::string>& list) {
    for (const auto& array : arrays) {
      if (array.kind == Kind::full) list.push_back(at == first ? "row.input[0]" : address_member(array.name));
      ++at;
    }
  };
  add(program.inputs, addresses.inputs);
  add(program.outputs, addresses.outputs);
  return addresses;
}

int exchanged_floats(const Program& program, int stage) {
  int floats = 0;
  for (const Reduction& reduction : program.reductions)
    if (reduction.stage == stage && !reduction.grouped && reduction.is_exchanged()) floats += floats_of(reduction, program);
  return computes_in_f64(program) ? 2 * floats : floats;
}

int max_exchanged_floats(const Program& program) {
  int most = 1;
  for (int stage = 1; stage <= program.stages; ++stage) most = std::max(most, exchanged_floats(program, stage));
  return most;
}

int column_sums(const Program& program) {
  return static_cast<int>(std::ranges::count(program.outputs, Kind::col, &Output::kind));
}

int totals(const Program& program) {
  return static_cast<int>(std::ranges::count(program.outputs, Kind::scalar, &Output::kind));
}

std::string params_definition(const Program& program) {
  std::string text = "/// The kernels' only argument.\nstruct RowProgramParams {\n  RowParams row;\n";
  const int first = first_full_array(program);
  const bool wide = computes_in_f64(program);
  int at = 0;
  const auto add = [&](const std::string& name, Kind kind, bool output) {
    if (at++ == first) return;
    text += std::string("  ") + (output ? "void* " : "const void* ") + address_member(name) + ";\n";
    if (kind == Kind::full || kind == Kind::group || kind == Kind::top) text += "  int64 " + stride_member(name) + ";\n";
  };
  for (const Input& input : program.inputs) add(input.name, input.kind, false);
  for (const Output& output : program.outputs) add(output.name, output.kind, true);
  for (const Number& number : program.numbers)
    text += std::string(number.type == Type::i32 ? "  int64 "
                        : wide                   ? "  double "
                                                 : "  float ") +
            number_member(number.name) + ";\n";
  return text + "};\n\n";
}

}  // namespace tunesmith::row_program
