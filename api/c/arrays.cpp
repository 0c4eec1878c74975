#include "api/c/arrays.h"

#include "tunesmith/error.h"

namespace tunesmith {
namespace {

static_assert(static_cast<int>(DType::f16) == TUNESMITH_F16 && static_cast<int>(DType::bf16) == TUNESMITH_BF16);
static_assert(static_cast<int>(DType::u8) == TUNESMITH_U8);
static_assert(static_cast<int>(DType::i32) == TUNESMITH_I32 && static_cast<int>(DType::i64) == TUNESMITH_I64);
static_assert(static_cast<int>(DType::e4m3) == TUNESMITH_E4M3 && static_cast<int>(DType::e5m2) == TUNESMITH_E5M2);
static_assert(static_cast<int>(DType::i8) == TUNESMITH_I8 && static_cast<int>(DType::f64) == TUNESMITH_F64);

tunesmith_role role_of(const ArrayInfo& info) {
  if (info.input && info.output) return TUNESMITH_IN_OUT;
  return info.output ? TUNESMITH_OUTPUT : TUNESMITH_INPUT;
}

}  // namespace

ArrayTable::ArrayTable(std::vector<ArrayInfo> infos) : infos_(std::move(infos)) {
  for (const ArrayInfo& info : infos_)
    arrays_.push_back({.name = info.name.c_str(),
                       .role = role_of(info),
                       .dtype = static_cast<tunesmith_dtype>(info.dtype),
                       .optional = info.optional ? 1 : 0,
                       .rank = static_cast<int>(info.shape.size()),
                       .shape = info.shape.data(),
                       .strides = info.strides.data(),
                       .bytes = info.extent_bytes(),
                       .alignment = info.alignment,
                       .in_place_of = info.in_place_of.c_str(),
                       .meaning = info.meaning.c_str()});
}

std::span<void* const> given_addresses(void* const* addresses, std::size_t count) {
  if (addresses == nullptr && count > 0)
    throw Error(ErrorCode::invalid_argument, "addresses is NULL; expected ", count, " addresses");
  return {addresses, count};
}

}  // namespace tunesmith
