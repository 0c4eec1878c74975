#include "templates/row/own_params.h"

#include <cstring>

#include "templates/row/params.cuh"

namespace tunesmith::row {

OwnParams::OwnParams(std::string type) : type_(std::move(type)) {}

OwnParams& OwnParams::address(const std::string& array, const std::string& member) {
  const std::uint64_t unknown = 0;
  add(member, array, &unknown, sizeof unknown);
  return *this;
}

OwnParams& OwnParams::first_input(const std::string& array) {
  first_input_ = array;
  return *this;
}

OwnParams& OwnParams::integer(const std::string& member, std::int64_t value) {
  add(member, {}, &value, sizeof value);
  return *this;
}

OwnParams& OwnParams::real(const std::string& member, double value) {
  const auto rounded = static_cast<float>(value);
  add(member, {}, &rounded, sizeof rounded);
  return *this;
}

OwnParams& OwnParams::real(const std::string& member, double value, bool wide) {
  if (!wide) return real(member, value);
  add(member, {}, &value, sizeof value);
  return *this;
}

void OwnParams::add(const std::string& member, const std::string& array, const void* value, std::size_t size) {
  const std::size_t at = (used_ + size - 1) / size * size;
  used_ = at + size;
  bytes_.resize((used_ + 7) / 8 * 8);  // RowParams holds addresses: the size of the struct is a multiple of 8
  std::memcpy(bytes_.data() + at, value, size);
  members_.push_back({member, array, static_cast<std::uint32_t>(sizeof(RowParams) + at), size});
}

std::optional<std::uint32_t> OwnParams::offset_of(std::string_view array) const {
  if (array.empty()) return std::nullopt;
  if (array == first_input_) return 0;
  for (const Member& member : members_)
    if (member.array == array) return member.offset;
  return std::nullopt;
}

std::string OwnParams::assertions() const {
  if (members_.empty()) return {};
  // NVRTC has no offsetof. Designators are in the order of the members, so order, sizes and the whole size fix the layout.
  const std::string type = "tunesmith::" + type_, reason = ", \"the host fills the parameters by this layout\");\n";
  std::string order = ".row = {}", sizes;
  for (const Member& member : members_) {
    order += ", ." + member.name + " = {}";
    sizes += "static_assert(sizeof(" + type + "::" + member.name + ") == " + std::to_string(member.size) + reason;
  }
  return "static_assert(sizeof(" + type + "{" + order + "}) == " + std::to_string(sizeof(RowParams) + bytes_.size()) +
         reason + sizes;
}

}  // namespace tunesmith::row
