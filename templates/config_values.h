#pragma once
// Reading the fields of a configuration, and the words that all kernels have for cache hints. Internal to templates/.

#include <string>
#include <string_view>
#include <vector>

#include "tunesmith/fields.h"

namespace tunesmith {

using Words = std::vector<std::string_view>;

/// As LoadHint and StoreHint in device/types.cuh.
const Words& load_words();
const Words& store_words();

/// "plain, streaming".
std::string joined(const Words& words);

/// All throw Error(invalid_argument) naming the field, its value and what is allowed.
std::string word_of(const Fields& fields, std::string_view field, const Words& allowed);
int integer_of(const Fields& fields, std::string_view field, int least, int most, int multiple_of = 1);
int power_of_two_of(const Fields& fields, std::string_view field, int least, int most);
/// Throws for a field that the variant does not have.
void check_fields_of_variant(const Fields& fields, std::string_view variant, const Words& allowed);

}  // namespace tunesmith
