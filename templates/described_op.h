#pragma once
// The operation of a self-describing problem (tunesmith/describe.h). Internal to templates/.

#include "templates/op.h"
#include "tunesmith/description.h"

namespace tunesmith {

/// Typed is the problem's struct; Parsed is a ParsedProblem constructed from (const Op&, const Typed&). The namespace of
/// Typed has these functions:
///   std::string_view summary_of(const Typed&);              returns one line of help
///   std::vector<FieldInfo> config_fields_of(const Typed&);  describes the fields of its configurations
///   void complete(Typed&);                                  checks across fields, and makes equal problems identical
/// Parsed has a static function templates(), which returns Op::templates().
/// Parsed may have a function of(const Op&, const Typed&) that chooses among several classes.
/// An internal operation, which help does not list, has a static member `internal`.
template <typename Typed, typename Parsed>
class DescribedOp : public Op {
 public:
  /// `prototype` holds what the fields do not contain, such as which of two operations it is.
  explicit DescribedOp(Typed prototype = {}) : prototype_(std::move(prototype)) {}

  std::string_view name() const noexcept override { return prototype_.op(); }
  std::string_view summary() const noexcept override { return summary_of(prototype_); }
  std::vector<FieldInfo> problem_fields() const override { return Description(prototype_).field_infos(); }
  std::vector<FieldInfo> config_fields() const override { return config_fields_of(prototype_); }
  std::vector<std::string> templates() const override { return Parsed::templates(); }
  bool is_internal() const noexcept override {
    return requires { Typed::internal; };
  }

  ParsedProblemPtr parse(const Problem& problem) const override {
    Typed typed = read_problem(prototype_, problem.fields);
    complete(typed);
    return parsed(typed);
  }

  ParsedProblemPtr parse_typed(const std::type_info& type, const void* problem) const override {
    if (type != typeid(Typed)) return nullptr;
    Typed typed = *static_cast<const Typed*>(problem);
    {
      Description description(typed);
      description.check_as_given(description_of_defaults<Typed>());
      description.resolve();
      check_extents(typed);
      description.check_defaults();
    }
    complete(typed);
    return parsed(typed);
  }

  std::vector<DescribedField> describe_fields(const Fields& known) const override {
    const Typed typed = partial(known);
    return Description(typed).described_fields();
  }
  std::vector<ArrayInfo> describe_arrays(const Fields& known) const override {
    const Typed typed = partial(known);
    return Description(typed).array_infos(true);
  }
  Fields infer_fields(const Fields& known, std::string_view array, std::span<const std::int64_t> shape) const override {
    const Typed typed = partial(known);
    return Description(typed).infer(array, shape);
  }

 private:
  Typed partial(const Fields& known) const {
    Typed typed = prototype_;
    Description(typed).read_known(known);
    return typed;
  }

  ParsedProblemPtr parsed(const Typed& typed) const {
    if constexpr (requires { Parsed::of(*this, typed); })
      return Parsed::of(*this, typed);
    else
      return std::make_shared<const Parsed>(*this, typed);
  }

  const Typed prototype_;
};

}  // namespace tunesmith
