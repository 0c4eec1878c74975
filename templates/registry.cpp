// The operations that exist. Adding one is a line here and a folder beside softmax/.

#include <array>

#include "templates/op.h"
#include "templates/softmax/softmax_op.h"
#include "tunesmith/error.h"

namespace tunesmith {

std::span<const Op* const> all_ops() {
  static const SoftmaxOp softmax;
  static const std::array<const Op*, 1> ops{&softmax};
  return ops;
}

const Op& find_op(std::string_view name) {
  std::string known;
  for (const Op* op : all_ops()) {
    if (op->name() == name) return *op;
    known += (known.empty() ? "" : ", ") + std::string(op->name());
  }
  throw Error(ErrorCode::invalid_argument, "op is '", name, "'; allowed: ", known);
}

}  // namespace tunesmith
