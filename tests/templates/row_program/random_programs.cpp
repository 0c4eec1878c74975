#include "tests/templates/row_program/random_programs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string_view>

#include "templates/row_program/evaluate/rounding.h"

namespace tunesmith::row_program {
namespace {

struct Value {
  std::string name;
  Kind kind;
  bool boolean = false;
  int stage = 0;
  bool used = false;
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed), seed_(seed) {}

  std::string program() {
    group_ = chance(3) ? 32 : 0;
    declare();
    const int statements = 2 + below(6);
    for (int i = 0; i < statements; ++i) {
      if (chance(3))
        reduce();
      else
        define();
    }
    outputs();
    if (seed_ % 5 == 4) chosen_columns();
    return text_;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  bool chance(int of) { return below(of) == 0; }
  template <std::size_t count>
  std::string one_of(const std::array<std::string_view, count>& all) {
    return std::string(all[static_cast<std::size_t>(below(static_cast<int>(count)))]);
  }
  std::string dimensions(Kind kind) const {
    return kind == Kind::group ? "[row, col/" + std::to_string(group_) + "]" : std::string(enum_name(kind));
  }
  std::string new_name() { return "v" + std::to_string(++names_); }
  void line(const std::string& text) { text_ += text + "\n"; }

  void input(const std::string& type, Kind kind, bool boolean = false) {
    const std::string name = new_name();
    line("in " + name + " : " + type + dimensions(kind));
    values_.push_back({name, kind, boolean});
  }

  void declare() {
    if (chance(5)) {
      line("fn scaled(s, m, top) = select(m == top, s, s * exp(m - top))");
      line(
          "monoid online((a, b), (c, d)) = (max(a, c), scaled(b, a, max(a, c)) + scaled(d, c, max(a, c))) identity (-inf, "
          "0)");
      monoid_ = true;
    }
    const int full = 1 + below(3);
    for (int i = 0; i < full; ++i)
      input(one_of(std::array<std::string_view, 6>{"float", "f32", "f16", "bf16", "e4m3", "float"}), Kind::full);
    if (chance(2)) input(one_of(std::array<std::string_view, 3>{"float", "f32", "i32"}), Kind::col);
    if (chance(3)) input(one_of(std::array<std::string_view, 3>{"f32", "i32", "bf16"}), Kind::row);
    if (chance(6)) input("f32", Kind::scalar);
    if (group_ > 0 && chance(2)) input("f32", Kind::group);
    if (chance(2)) {
      const std::string name = new_name();
      line("num " + name + " : f32 = 0.5");
      values_.push_back({name, Kind::scalar});
    }
    if (chance(5)) {
      const std::string seed = new_name(), name = new_name();
      line("num " + seed + " : i32");
      line(name + " = uniform(" + seed + ", " + std::to_string(below(4)) + ")");
      values_.push_back({name, Kind::full});
    }
  }

  Value& pick(bool boolean) {
    for (int tries = 0; tries < 50; ++tries) {
      Value& value = values_[static_cast<std::size_t>(below(static_cast<int>(values_.size())))];
      if (value.boolean == boolean && value.stage <= stage_limit_) return value;
    }
    return values_[0];
  }

  struct Made {
    std::string text;
    Kind kind = Kind::scalar;
    int stage = 0;
  };

  static Kind join(Kind a, Kind b) {
    if (a == b || b == Kind::scalar) return a;
    if (a == Kind::scalar) return b;
    if ((a == Kind::row && b == Kind::group) || (a == Kind::group && b == Kind::row)) return Kind::group;
    return Kind::full;
  }
  static Made joined(const std::string& text, const Made& a, const Made& b) {
    return {text, join(a.kind, b.kind), std::max(a.stage, b.stage)};
  }

  Made number(int depth) {
    if (depth <= 0 || chance(4)) {
      switch (below(8)) {
        case 0: return {one_of(std::array<std::string_view, 5>{"1", "0.5", "2", "0.1", "3"})};
        case 1: return {"cols"};
        case 2: return {"col", Kind::col};
        default: {
          Value& value = pick(false);
          if (value.boolean) return {"1"};
          value.used = true;
          return {value.name, value.kind, value.stage};
        }
      }
    }
    const Made a = number(depth - 1);
    switch (below(14)) {
      case 0: return {"-" + parenthesized(a), a.kind, a.stage};
      case 1:
        return {one_of(std::array<std::string_view, 8>{"abs", "tanh", "erf", "sigmoid", "silu", "gelu", "floor", "round"}) +
                    "(" + a.text + ")",
                a.kind, a.stage};
      case 2: return {"exp(min(" + a.text + ", 3))", a.kind, a.stage};
      case 3:
        return {one_of(std::array<std::string_view, 4>{"log", "sqrt", "rsqrt", "log1p"}) + "(abs(" + a.text + ") + 0.25)",
                a.kind, a.stage};
      case 4: {
        const Made b = number(depth - 1);
        return joined(parenthesized(a) + " / (abs(" + b.text + ") + 0.5)", a, b);
      }
      case 5:
        return {one_of(std::array<std::string_view, 4>{"bf16", "f16", "float", "e4m3"}) + "(" + a.text + ")", a.kind,
                a.stage};
      case 6: {
        const Made condition = boolean(depth - 1), b = number(depth - 1);
        const Made both = joined("", a, b);
        return joined("select(" + condition.text + ", " + a.text + ", " + b.text + ")", condition, both);
      }
      case 7:
      case 8: {
        const Made b = number(depth - 1);
        return joined(one_of(std::array<std::string_view, 2>{"min", "max"}) + "(" + a.text + ", " + b.text + ")", a, b);
      }
      default: {
        const Made b = number(depth - 1);
        return joined(
            parenthesized(a) + " " + one_of(std::array<std::string_view, 4>{"+", "-", "*", "+"}) + " " + parenthesized(b), a,
            b);
      }
    }
  }

  Made boolean(int depth) {
    if (depth > 1 && chance(3)) {
      const Made a = boolean(depth - 1), b = boolean(depth - 1);
      return joined("(" + a.text + (chance(2) ? " && " : " || ") + b.text + ")", a, b);
    }
    const Made a = number(depth - 1), b = number(depth - 1);
    return joined("(" + parenthesized(a) + " " + one_of(std::array<std::string_view, 6>{"<", "<=", ">", ">=", "==", "!="}) +
                      " " + parenthesized(b) + ")",
                  a, b);
  }

  static std::string parenthesized(const Made& made) {
    const bool plain = made.text.find_first_of(" -") == std::string::npos;
    return plain ? made.text : "(" + made.text + ")";
  }

  void define() {
    const std::string name = new_name();
    if (chance(5)) {
      const Made made = boolean(2);
      line(name + " = " + made.text);
      values_.push_back({name, made.kind, true, made.stage});
    } else {
      const Made made = number(3);
      line(name + (chance(4) ? " : bf16 = " : " = ") + made.text);
      values_.push_back({name, made.kind, false, made.stage});
    }
  }

  void reduce() {
    stage_limit_ = 2;
    const bool grouped = group_ > 0 && chance(2);
    const std::string suffix = grouped ? "[" + std::to_string(group_) + "] " : " ", first = new_name();
    const Value& full = values_[0];
    const Kind kind = grouped ? Kind::group : Kind::row;
    values_[0].used = true;
    if (chance(4)) {
      Made made = boolean(2);
      made.stage = std::max(made.stage, full.stage);
      const std::string reducer = one_of(std::array<std::string_view, 3>{"any", "all", "count"});
      line(reducer + suffix + first + " = " + made.text + " != (" + full.name + " > 1)");
      values_.push_back({first, kind, reducer != "count", made.stage + 1});
    } else {
      const Made made = number(2);
      const std::string term = parenthesized(made) + " * 0.125 + " + full.name;
      if (monoid_ && chance(3)) {
        const std::string second = new_name();
        line("reduce" + suffix + first + ", " + second + " = online(" + term + ", 1)");
        values_.push_back({second, kind, false, made.stage + 1});
      } else if (chance(6)) {
        const std::string second = new_name();
        line("moments" + suffix + first + ", " + second + " = " + term);
        values_.push_back({second, kind, false, made.stage + 1});
      } else {
        line(one_of(std::array<std::string_view, 7>{"sum", "mean", "max", "min", "lse", "argmax", "argmin"}) + suffix +
             first + " = " + term);
      }
      values_.push_back({first, kind, false, made.stage + 1});
    }
    stage_limit_ = 3;
  }

  void outputs() {
    std::string rest;
    const Made made = number(2);
    for (Value& value : values_) value.used = value.used && value.name[0] != 'v';  // uses in unused values do not count
    for (const Value& value : values_)
      if (!value.used)
        rest += value.boolean ? " + select(" + value.name + ", 1, 0.5)" : " + clamp(" + value.name + ", -8, 8)";
    line("out y : " + one_of(std::array<std::string_view, 7>{"float", "f32", "f16", "bf16", "e4m3", "e5m2", "i8"}) +
         "[row, col] = " + made.text + rest);
    for (const Value& value : values_) {
      if (value.kind == Kind::row && value.stage > 0 && !value.boolean && rows_ < 2)
        line("out r" + std::to_string(++rows_) + " : f32[row] = " + value.name);
      if (value.kind == Kind::full && value.boolean && full_ < 1)
        line("out m" + std::to_string(++full_) + " : bool[row, col] = " + value.name);
    }
  }

  /// Appends a topk and outputs of the chosen columns.
  void chosen_columns() {
    stage_limit_ = 2;
    const std::string k = std::to_string(1 + below(9)), value = new_name(), column = new_name(), name = new_name();
    std::string made = number(2).text + " * 0.125 + " + values_[0].name, names = value + ", " + column, more = value;
    if (chance(2)) {
      more = new_name();
      names += ", " + more;
      made += ", " + number(2).text;
    }
    line("topk[" + k + "] " + names + " = " + made);
    const std::string operation = one_of(std::array<std::string_view, 4>{" + ", " - ", " * ", " / 3 + "});
    line(name + " = " + more + operation + one_of(std::array<std::string_view, 3>{"abs(", "tanh(", "silu("}) + value + ")");
    std::string sum = "1";
    if (chance(2)) {
      sum = new_name();
      line(one_of(std::array<std::string_view, 6>{"sum ", "mean ", "max ", "min ", "lse ", "argmax "}) + sum + " = " + name);
    }
    line("out top : " + one_of(std::array<std::string_view, 3>{"f32", "float", "bf16"}) + "[row, " + k + "] = " + name +
         " + " + sum);
    if (chance(2)) line("out top_column : i32[row, " + k + "] = " + column);
    if (chance(3)) line("out dense : float[row, col] = scatter(" + column + ", " + name + ") + " + sum);
  }

  std::mt19937_64 random_;
  std::uint64_t seed_;
  std::string text_;
  std::vector<Value> values_;
  bool monoid_ = false;
  int names_ = 0, group_ = 0, stage_limit_ = 3, rows_ = 0, full_ = 0;
};

}  // namespace

std::string random_program(std::uint64_t seed) { return Generator(seed).program(); }

std::vector<std::vector<double>> random_inputs(const Program& program, std::int64_t cols, std::uint64_t seed, bool special) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(-2, 2);
  std::vector<std::vector<double>> inputs;
  for (const Input& input : program.inputs) {
    std::int64_t count = 1;
    if (input.kind == Kind::full || input.kind == Kind::col) count = cols;
    if (input.kind == Kind::top) count = program.top;
    if (input.kind == Kind::group) count = (cols + program.group - 1) / program.group;
    const Type type = input.type.value_or(Type::f32);
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i) {
      double value = uniform(random);
      const auto kind = random() % 64;
      if (kind < 4) value = 0;
      if (kind >= 4 && kind < 8) value = 1.5;
      if (special && kind == 8) value = HUGE_VAL;
      if (special && kind == 9) value = std::nan("");
      if (type == Type::boolean) value = value > 0 ? 1 : 0;
      if (value_type(type) == Type::i32 || type == Type::i8) value *= 10;
      values.push_back(round_to_type(type, value));
    }
    inputs.push_back(std::move(values));
  }
  return inputs;
}

std::vector<double> numbers_of(const Program& program) {
  std::vector<double> values;
  for (const Number& number : program.numbers) values.push_back(number.value.value_or(7));
  return values;
}

}  // namespace tunesmith::row_program
