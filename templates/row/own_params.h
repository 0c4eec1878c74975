#pragma once
// Kernel parameters of one operation, after the parameters of all row kernels. Internal to templates/.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tunesmith::row {

/// The members of a struct in device code whose first member is `RowParams row`. The generated source asserts their layout.
///
///   OwnParams("RmsNormParams").address("weight").address("rstd").real("eps", problem.eps)
class OwnParams {
 public:
  /// The kernels of the operation take RowParams.
  OwnParams() = default;
  /// `type` is the name of the struct. Its members are added in their order.
  explicit OwnParams(std::string type);

  /// Adds a pointer to the array of this name: null if the problem does not have the array.
  OwnParams& address(const std::string& array) { return address(array, array); }
  /// As above, in a member of another name.
  OwnParams& address(const std::string& array, const std::string& member);
  /// Names the array whose address is RowParams::input[0].
  OwnParams& first_input(const std::string& array);
  OwnParams& integer(const std::string& member, std::int64_t value);
  /// Adds a float.
  OwnParams& real(const std::string& member, double value);
  /// Adds a double if `wide`, else a float.
  OwnParams& real(const std::string& member, double value, bool wide);

  const std::string& type() const noexcept { return type_; }
  /// The values of the members, which follow RowParams.
  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
  /// Returns the offset of an array's address in the struct.
  std::optional<std::uint32_t> offset_of(std::string_view array) const;
  /// Returns the assertions for the generated source; empty for RowParams.
  std::string assertions() const;

 private:
  struct Member {
    std::string name, array;  // array: whose address it is
    std::uint32_t offset;     // in the struct
    std::size_t size;
  };

  void add(const std::string& member, const std::string& array, const void* value, std::size_t size);

  std::string type_ = "RowParams", first_input_;
  std::vector<std::byte> bytes_;
  std::size_t used_ = 0;  // of bytes_, without padding at the end
  std::vector<Member> members_;
};

}  // namespace tunesmith::row
