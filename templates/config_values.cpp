#include "templates/config_values.h"

namespace tunesmith {

std::string source_name(LoadHint hint) { return "tunesmith::LoadHint::" + std::string(enum_name(hint)); }
std::string source_name(StoreHint hint) { return "tunesmith::StoreHint::" + std::string(enum_name(hint)); }

}  // namespace tunesmith
