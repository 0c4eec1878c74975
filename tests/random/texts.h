#pragma once
// Small grammars for fields whose values are texts: programs of rows, user functions of attention, properties of arrays.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "templates/op.h"
#include "tests/random/chance.h"

namespace tunesmith::test {

/// Makes the texts of one problem, which refer to each other.
class Texts {
 public:
  Texts(Chance& chance, const Op& op) : chance_(chance), op_(op) {}

  /// Returns a value of the field for a problem with these fields; nothing if the problem has no use for it. Throws
  /// std::logic_error for a field without a grammar.
  std::optional<std::string> make(const DescribedField& field, const Fields& given);

 private:
  /// An expression of a user function and its derivative by the score.
  struct Expression {
    std::string value, derivative;
  };

  std::string new_name();
  std::string number(std::string_view type, std::string_view value);
  std::string element(bool as_float);
  Expression score(int depth);
  std::string condition(int depth);
  std::string source(std::string_view signature, const std::string& body);
  std::string score_mod();
  std::string mask_mod();
  std::string numbers(const std::string& program);
  std::string alignments(const std::vector<ArrayInfo>& arrays);
  std::optional<std::string> in_place(const std::vector<ArrayInfo>& arrays);

  Chance& chance_;
  const Op& op_;
  std::string derivative_, override_;
  std::vector<std::string> declared_, differentiable_;
  char prefix_ = 'a';
  int names_ = 0;
};

}  // namespace tunesmith::test
