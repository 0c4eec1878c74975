#include "tests/random/texts.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>

#include "templates/row_program/language/programs.h"
#include "tests/templates/row_program/random_programs.h"
#include "tunesmith/error.h"
#include "tunesmith/row_program.h"

namespace tunesmith::test {
namespace {

using Words = std::vector<std::string_view>;

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ";") + part;
  return text;
}

/// The length of an array and an index into it; `#` is a number of the value after it.
struct Place {
  std::string_view length, index, number;
};
constexpr Place places[] = {{"heads", "h", ""},
                            {"batch", "b", ""},
                            {"seq_q", "q", ""},
                            {"seq_kv", "k", ""},
                            {"8", "(q + k) % 8", ""},
                            {"seq_q+seq_kv", "q + k", ""},
                            {"heads*seq_kv", "h * # + k", "seq_kv"},
                            {"heads*(seq_q+seq_kv-1)", "h * # + q + k", "seq_q+seq_kv-1"},
                            {"batch*seq_q", "b * # + q", "seq_q"},
                            {"seq_q*seq_kv", "q * # + k", "seq_kv"}};

}  // namespace

std::string Texts::new_name() {
  if (chance_.with(0.02)) {  // a name that the kernel may need itself
    std::vector<std::string> taken{"score", "q", "aux", "float", "params", "this", "size", "main", "x"};
    for (const ArrayInfo& array : op_.describe_arrays({})) taken.push_back(array.name);
    for (const FieldInfo& field : op_.cached_fields()) taken.emplace_back(field.name);
    return chance_.one_of(taken);
  }
  return std::string(1, prefix_) + std::to_string(names_++);
}

std::string Texts::number(std::string_view type, std::string_view value) {
  const std::string name = new_name();
  declared_.push_back(name + ":" + std::string(type) + "=" + std::string(value));
  return "aux." + name;
}

std::string Texts::element(bool as_float) {
  if (declared_.size() >= 7) return as_float ? "0.5f" : "3";
  const Place& place = chance_.one_of(places);
  const std::string dtype(
      chance_.one_of(as_float ? Words{"f32", "f32", "f16", "bf16", "i32", "i64", "u8"} : Words{"i32", "i64", "u8"}));
  std::string index(place.index);
  if (const std::size_t at = index.find('#'); at != std::string::npos) index.replace(at, 1, number("i32", place.number));
  const std::string name = new_name();
  declared_.push_back(name + ":" + dtype + "[" + std::string(place.length) + "]");
  if (prefix_ == 'a' && (dtype[0] == 'f' || dtype == "bf16")) differentiable_.push_back(name);
  const std::string text = "aux." + name + "[" + index + "]";
  return as_float ? "to_float(" + text + ")" : "static_cast<int>(" + text + ")";
}

Texts::Expression Texts::score(int depth) {
  if (depth <= 0) return {"score", "1.0f"};
  const Expression a = score(depth - 1);
  const std::string factor(chance_.one_of(Words{"0.5f", "-0.25f", "2.0f"}));
  switch (chance_.below(9)) {
    case 0: return {"(" + a.value + ") * " + factor, "(" + a.derivative + ") * " + factor};
    case 1: return {"(" + a.value + ") + " + element(true), a.derivative};
    case 2: {
      const std::string weight = element(true);
      return {"(" + a.value + ") * " + weight, "(" + a.derivative + ") * " + weight};
    }
    case 3: return {"(" + a.value + ") + static_cast<float>(q - k) * " + factor, a.derivative};
    case 4: {
      const std::string tanh = "tanhf((" + a.value + ") * 0.25f)";
      return {tanh + " * 4.0f", "(" + a.derivative + ") * (1.0f - " + tanh + " * " + tanh + ")"};
    }
    case 5: {
      const std::string c = condition(0);
      return {"(" + c + ") ? (" + a.value + ") : -INFINITY", "(" + c + ") ? (" + a.derivative + ") : 0.0f"};
    }
    case 6: {
      const std::string c = condition(1);
      const Expression b = score(0);
      return {"(" + c + ") ? (" + a.value + ") : (" + b.value + ")",
              "(" + c + ") ? (" + a.derivative + ") : (" + b.derivative + ")"};
    }
    case 7: {
      const std::string value = number("f32", "0.5");
      if (override_.empty() && chance_.with(0.3)) override_ = value.substr(4) + ":f32=-1.5";
      return {"(" + a.value + ") + " + value, a.derivative};
    }
    default: return {"(" + a.value + ") - fabsf(static_cast<float>(q - k)) * 0.125f", a.derivative};
  }
}

std::string Texts::condition(int depth) {
  const std::string n(chance_.one_of(Words{"2", "3", "16", "64", "100"}));
  if (depth > 0 && chance_.with(0.6)) {
    const std::string a = condition(depth - 1), b = condition(depth - 1);
    return "(" + a + ")" + (chance_.with(0.5) ? " && " : " || ") + "(" + b + ")";
  }
  switch (chance_.below(10)) {
    case 0: return "q >= k";
    case 1: return "q / " + n + " == k / " + n;
    case 2: return "(q + k) % " + n + " != 0";
    case 3: return "h % 2 == 0 || k < " + n;
    case 4: return "k < " + element(false);
    case 5: return element(false) + " == " + element(false);
    case 6: return element(false) + " != 0";
    case 7: return "q - k < " + n;
    case 8: return "(b + k) % 2 == 0";
    default: return chance_.with(0.5) ? "true" : "false";
  }
}

std::string Texts::source(std::string_view signature, const std::string& body) {
  std::string text;
  if (!declared_.empty()) text = "// aux: " + joined(declared_) + "\n";
  return text + "__device__ " + std::string(signature) + " {\n  return " + body + ";\n}\n";
}

std::string Texts::score_mod() {
  prefix_ = 'a';
  declared_.clear();
  const Expression expression = score(1 + static_cast<int>(chance_.below(3)));
  derivative_ = expression.derivative;
  const std::size_t used = declared_.size();
  std::string text = source("float score_mod(float score, int b, int h, int q, int k, const Aux& aux)", expression.value);
  declared_.assign(used, "");  // members in use
  return text;
}

std::string Texts::mask_mod() {
  prefix_ = 'm';
  const std::size_t used = declared_.size();
  const std::string body = condition(2);
  declared_.erase(declared_.begin(), declared_.begin() + static_cast<std::ptrdiff_t>(used));
  return source("bool mask_mod(int b, int h, int q, int k, const Aux& aux)", body);
}

std::string Texts::numbers(const std::string& program) {
  std::vector<std::string> values;
  std::istringstream lines(program);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("num ")) continue;
    const std::string name = line.substr(4, line.find_first_of(" :,", 4) - 4);
    const bool integer = line.find("i32") != std::string::npos, required = line.find('=') == std::string::npos;
    if (!required && chance_.with(0.5)) continue;
    values.push_back(name + "=" +
                     std::string(integer ? chance_.one_of(Words{"0", "1", "7", "-3"})
                                         : chance_.one_of(Words{"0", "1", "0.125", "1e-5", "-0.5"})));
  }
  return joined(values);
}

std::string Texts::alignments(const std::vector<ArrayInfo>& arrays) {
  std::vector<std::string> values;
  for (const ArrayInfo& array : arrays)
    if (chance_.with(0.5)) values.push_back(array.name + "=" + std::to_string(size_of(array.dtype) << chance_.below(5)));
  return joined(values);
}

std::optional<std::string> Texts::in_place(const std::vector<ArrayInfo>& arrays) {
  std::vector<std::string> values;
  for (const ArrayInfo& output : arrays)
    for (const ArrayInfo& input : arrays)
      if (output.output && input.input && output.dtype == input.dtype && output.shape == input.shape && values.empty() &&
          chance_.with(0.5))
        values.push_back(output.name + "=" + input.name);
  if (values.empty()) return std::nullopt;
  return joined(values);
}

std::optional<std::string> Texts::make(const DescribedField& field, const Fields& given) {
  const std::string_view name = field.name;
  if (name == "program") {
    if (chance_.with(0.2)) {
      const auto& shipped = chance_.one_of(row_program::shipped_programs());
      return std::string(shipped.second);
    }
    const std::string text = row_program::random_program(chance_.bits() % 100'000);
    if (chance_.with(0.2)) try {
        return RowProgramText(text).gradient().text();
      } catch (const Error&) {  // there is none
      }
    return text;
  }
  if (name == "numbers") {
    const Value* const program = given.find("program");
    return numbers(program != nullptr ? std::get<std::string>(*program) : row_program::shipped_program(op_.name()));
  }
  if (name == "alignments") return alignments(op_.describe_arrays(given));
  if (name == "in_place") return in_place(op_.describe_arrays(given));
  if (name == "score_mod") return score_mod();
  if (name == "mask_mod") return mask_mod();
  if (name == "score_mod_grad")
    return derivative_.empty() ? std::nullopt
                               : std::optional(
                                     "__device__ float score_mod_grad(float score, int b, int h, int q, int k, "
                                     "const Aux& aux) {\n  return " +
                                     derivative_ + ";\n}\n");
  if (name == "aux") return override_.empty() ? std::nullopt : std::optional(override_);
  if (name == "daux") {
    std::vector<std::string> chosen;
    for (const std::string& array : differentiable_)
      if (chance_.with(0.6)) chosen.push_back(array);
    return chosen.empty() ? std::nullopt : std::optional(joined(chosen));
  }
  throw std::logic_error("tests/random/texts.cpp has no grammar for the field " + std::string(name) + " of " +
                         std::string(op_.name()));
}

}  // namespace tunesmith::test
