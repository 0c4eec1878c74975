#pragma once
// Arrays of other libraries: tensors and arrays that offer the DLPack exchange table, the buffer protocol,
// __cuda_array_interface__ or __dlpack__.

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <string>

#include "api/python/src/dlpack.h"
#include "tunesmith/array_info.h"
#include "tunesmith/device_info.h"

namespace tunesmith::python {

/// The layout of an array that someone else owns.
struct ArrayView {
  static constexpr int max_rank = 8;

  void* data = nullptr;
  DlType type{};
  DlDevice device{dl_cpu, 0};
  int rank = 0;
  bool read_only = false;
  bool known_ordinal = true;                              ///< device.id is meaningful
  std::array<std::int64_t, max_rank> shape{}, strides{};  ///< strides in elements
};

/// Reads the layout of an object for as long as this object lives, and keeps the object alive.
class BorrowedArray {
 public:
  /// Throws nb::type_error for an object that is no array, and Error(invalid_argument) for a layout that no kernel takes.
  BorrowedArray(nanobind::handle object, const std::string& name);
  ~BorrowedArray();
  BorrowedArray(const BorrowedArray&) = delete;
  BorrowedArray& operator=(const BorrowedArray&) = delete;

  const ArrayView& view() const noexcept { return view_; }

 private:
  bool read_exchange(nanobind::handle object);
  bool read_buffer(nanobind::handle object);
  bool read_cuda_interface(nanobind::handle object);
  bool read_dlpack(nanobind::handle object);
  void read_tensor(const DlTensor& tensor);

  const std::string name_;
  ArrayView view_;
  nanobind::object owner_;  ///< the object, or the capsule that it made
  Py_buffer buffer_{};
  bool has_buffer_ = false;
};

/// Returns the exchange table of a type; nullptr if it has none of a version that is understood.
const DlExchange* exchange_of(nanobind::handle type);

/// Fills a view from a tensor. Throws Error(invalid_argument) for more than ArrayView::max_rank dimensions.
void read_view(const DlTensor& tensor, ArrayView& view, const std::string& name);

/// Returns the name of the element type as Tunesmith has it: "f32", or "bool" and "u16", which stand for u8 and bf16; empty
/// if there is none.
std::string_view type_name(DlType type);
/// Returns a name for messages, such as "f64", for every type.
std::string describe_type(DlType type);
/// Reports whether an array of this type can be passed for `dtype`: bool for u8, and the bits in integers for bf16, e4m3
/// and e5m2.
bool fits(DlType type, DType dtype);

/// Throws Error(invalid_argument) unless the view is what the plan was prepared for: element type, shape, strides, device,
/// and, of an output, writable.
void check_view(const ArrayView& view, const ArrayInfo& info, const DeviceInfo& device);

}  // namespace tunesmith::python
