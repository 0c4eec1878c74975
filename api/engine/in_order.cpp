#include "api/engine/in_order.h"

#include <algorithm>
#include <string>

#include "core/nearest.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

[[noreturn]] void reject(std::string_view name, std::span<const ArrayInfo> infos) {
  std::vector<std::string_view> names;
  std::string all;
  for (const ArrayInfo& info : infos) {
    names.push_back(info.name);
    all += (all.empty() ? "" : ", ") + info.name;
  }
  const std::string_view nearest = nearest_name(name, names);
  throw Error(ErrorCode::invalid_argument, "the plan has no array '", name, "'",
              nearest.empty() ? "; allowed: " : "; did you mean '" + std::string(nearest) + "'? Allowed: ", all);
}

}  // namespace

std::vector<void*> in_order(std::span<const ArrayInfo> infos, std::span<const NamedArray> arrays) {
  std::vector<void*> addresses(infos.size());
  for (const NamedArray& array : arrays) {
    const auto info = std::ranges::find(infos, array.name, &ArrayInfo::name);
    if (info == infos.end()) reject(array.name, infos);
    void*& address = addresses[static_cast<std::size_t>(info - infos.begin())];
    if (address != nullptr && address != array.address)
      throw Error(ErrorCode::invalid_argument, "array '", array.name, "' is given twice, with different addresses");
    address = const_cast<void*>(array.address);
  }
  return addresses;
}

}  // namespace tunesmith
