#include "api/python/src/array.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "tunesmith/error.h"

namespace tunesmith::python {

namespace nb = nanobind;

namespace {

[[noreturn]] void reject(const std::string& name, const std::string& problem) {
  throw Error(ErrorCode::invalid_argument, name, " ", problem);
}

std::string shape_text(std::span<const std::int64_t> extents) {
  std::string text = "(";
  for (const std::int64_t extent : extents) text += (text.size() == 1 ? "" : ", ") + std::to_string(extent);
  return text + (extents.size() == 1 ? ",)" : ")");
}

/// The element type of a buffer's format (struct module) or of a typestr ("<f4").
bool parse_type(char kind, std::int64_t bytes, DlType& type) {
  const auto bits = static_cast<std::uint8_t>(bytes * 8);
  switch (kind) {
    case 'f': type = {dl_float, bits, 1}; return true;
    case 'i': type = {dl_int, bits, 1}; return true;
    case 'u': type = {dl_uint, bits, 1}; return true;
    case 'b': type = {dl_bool, 8, 1}; return true;
    default: return false;
  }
}

char kind_of_format(std::string_view format) {
  if (!format.empty() && (format[0] == '<' || format[0] == '=' || format[0] == '@')) format.remove_prefix(1);
  if (format.size() != 1) return 0;
  if (std::string_view("efd").find(format[0]) != std::string_view::npos) return 'f';
  if (std::string_view("bhilqn").find(format[0]) != std::string_view::npos) return 'i';
  if (std::string_view("BHILQNc").find(format[0]) != std::string_view::npos) return 'u';
  return format[0] == '?' ? 'b' : 0;
}

void set_contiguous(ArrayView& view) {
  std::int64_t stride = 1;
  for (int d = view.rank; d-- > 0;) {
    view.strides[static_cast<std::size_t>(d)] = stride;
    stride *= view.shape[static_cast<std::size_t>(d)];
  }
}

std::int64_t in_elements(std::int64_t stride_bytes, std::int64_t item_bytes, const std::string& name) {
  if (stride_bytes % item_bytes != 0)
    reject(name, "has a stride of " + std::to_string(stride_bytes) + " bytes; allowed: multiples of an element's " +
                     std::to_string(item_bytes));
  return stride_bytes / item_bytes;
}

void check_rank(std::int64_t rank, const std::string& name) {
  if (rank > ArrayView::max_rank)
    reject(name, "has " + std::to_string(rank) + " dimensions; allowed: at most " + std::to_string(ArrayView::max_rank));
}

}  // namespace

std::string_view type_name(DlType type) {
  if (type.lanes != 1) return {};
  if (type.code == dl_float && type.bits == 32) return "f32";
  if (type.code == dl_float && type.bits == 16) return "f16";
  if (type.code == dl_float && type.bits == 64) return "f64";
  if (type.code == dl_bfloat && type.bits == 16) return "bf16";
  if (type.code == dl_uint && type.bits == 16) return "u16";
  if (type.code == dl_uint && type.bits == 8) return "u8";
  if (type.code == dl_bool) return "bool";
  if (type.code == dl_int && type.bits == 32) return "i32";
  if (type.code == dl_int && type.bits == 64) return "i64";
  if (type.code == dl_int && type.bits == 8) return "i8";
  if (type.code == dl_float8_e4m3fn && type.bits == 8) return "e4m3";
  if (type.code == dl_float8_e5m2 && type.bits == 8) return "e5m2";
  return {};
}

std::string describe_type(DlType type) {
  if (const std::string_view known = type_name(type); !known.empty()) return std::string(known);
  const char* const kind = type.code == dl_float ? "f" : type.code == dl_int ? "i" : type.code == dl_uint ? "u" : "type ";
  const int shown = *kind == 't' ? type.code : type.bits;
  return kind + std::to_string(shown) + (type.lanes == 1 ? "" : "x" + std::to_string(type.lanes));
}

bool fits(DlType type, DType dtype) {
  const std::string_view given = type_name(type);
  const bool float8 = dtype == DType::e4m3 || dtype == DType::e5m2;
  return given == name(dtype) || (given == "bool" && dtype == DType::u8) || (given == "u16" && dtype == DType::bf16) ||
         (given == "u8" && float8);
}

const DlExchange* exchange_of(nb::handle type) {
  const nb::object capsule = nb::steal(PyObject_GetAttrString(type.ptr(), "__dlpack_c_exchange_api__"));
  if (!capsule.is_valid()) {
    PyErr_Clear();
    return nullptr;
  }
  if (PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api") == 0) return nullptr;
  const auto* table = static_cast<const DlExchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (table != nullptr && table->version.major != 1) table = table->previous;
  return table;
}

void read_view(const DlTensor& tensor, ArrayView& view, const std::string& name) {
  check_rank(tensor.rank, name);
  view.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  view.type = tensor.type;
  view.device = tensor.device;
  view.rank = tensor.rank;
  std::copy_n(tensor.shape, tensor.rank, view.shape.begin());
  if (tensor.strides == nullptr)
    set_contiguous(view);
  else
    std::copy_n(tensor.strides, tensor.rank, view.strides.begin());
}

BorrowedArray::BorrowedArray(nb::handle object, const std::string& name) : name_(name) {
  if (read_exchange(object) || read_buffer(object) || read_cuda_interface(object) || read_dlpack(object)) return;
  throw nb::type_error((name + " is a " + nb::cast<std::string>(nb::inst_name(object)) +
                        "; expected an array that offers DLPack, the buffer protocol or __cuda_array_interface__")
                           .c_str());
}

BorrowedArray::~BorrowedArray() {
  if (has_buffer_) PyBuffer_Release(&buffer_);
}

void BorrowedArray::read_tensor(const DlTensor& tensor) { read_view(tensor, view_, name_); }

bool BorrowedArray::read_exchange(nb::handle object) {
  const DlExchange* table = exchange_of(object.type());
  if (table == nullptr || table->tensor_from_object == nullptr) return false;
  // A negative or conjugate view shares the memory of the array it negates, and the table does not say so.
  for (const char* lazy : {"is_neg", "is_conj"})
    if (nb::hasattr(object, lazy) && nb::cast<bool>(object.attr(lazy)()))
      reject(name_, std::string("is a lazy view (") + lazy + "); make it an array of its own first");
  DlTensor tensor{};
  if (table->tensor_from_object(object.ptr(), &tensor) != 0) throw nb::python_error();
  owner_ = nb::borrow(object);
  read_tensor(tensor);
  return true;
}

bool BorrowedArray::read_buffer(nb::handle object) {
  if (PyObject_CheckBuffer(object.ptr()) == 0) return false;
  if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) throw nb::python_error();
  has_buffer_ = true;
  check_rank(buffer_.ndim, name_);
  const std::string_view format = buffer_.format == nullptr ? "B" : buffer_.format;
  if (!parse_type(kind_of_format(format), buffer_.itemsize, view_.type))
    reject(name_, "has elements of format '" + std::string(format) + "'; allowed: numbers in this machine's byte order");
  view_.data = buffer_.buf;
  view_.rank = buffer_.ndim;
  view_.read_only = buffer_.readonly != 0;
  for (int d = 0; d < buffer_.ndim; ++d) {
    const auto at = static_cast<std::size_t>(d);
    view_.shape[at] = buffer_.shape[d];
    view_.strides[at] = in_elements(buffer_.strides[d], buffer_.itemsize, name_);
  }
  return true;
}

bool BorrowedArray::read_cuda_interface(nb::handle object) {
  if (!nb::hasattr(object, "__cuda_array_interface__")) return false;
  const nb::dict facts = nb::cast<nb::dict>(object.attr("__cuda_array_interface__"));
  const auto typestr = nb::cast<std::string>(facts["typestr"]);
  const std::int64_t bytes = typestr.size() < 3 ? 0 : std::stoll(typestr.substr(2));
  if (bytes == 0 || typestr[0] == '>' || !parse_type(typestr[1], bytes, view_.type))
    reject(name_, "has elements of type '" + typestr + "'; allowed: numbers in this machine's byte order");
  const nb::tuple data = nb::cast<nb::tuple>(facts["data"]);
  view_.data = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(data[0]));  // NOLINT(performance-no-int-to-ptr)
  view_.read_only = nb::cast<bool>(data[1]);
  view_.device = {dl_cuda, 0};
  view_.known_ordinal = false;
  const nb::tuple shape = nb::cast<nb::tuple>(facts["shape"]);
  check_rank(static_cast<std::int64_t>(shape.size()), name_);
  view_.rank = static_cast<int>(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) view_.shape[d] = nb::cast<std::int64_t>(shape[d]);
  set_contiguous(view_);
  if (facts.contains("strides") && !facts["strides"].is_none()) {
    const nb::tuple strides = nb::cast<nb::tuple>(facts["strides"]);
    for (std::size_t d = 0; d < strides.size() && d < shape.size(); ++d)
      view_.strides[d] = in_elements(nb::cast<std::int64_t>(strides[d]), bytes, name_);
  }
  owner_ = nb::borrow(object);
  return true;
}

bool BorrowedArray::read_dlpack(nb::handle object) {
  if (!nb::hasattr(object, "__dlpack__") || !nb::hasattr(object, "__dlpack_device__")) return false;
  const nb::tuple device = nb::cast<nb::tuple>(object.attr("__dlpack_device__")());
  nb::object capsule;
  // -1: the caller orders the streams. Libraries before DLPack 1.0 do not know max_version.
  if (nb::cast<int>(device[0]) == dl_cuda) {
    capsule = object.attr("__dlpack__")(nb::arg("stream") = -1);
  } else {
    capsule = object.attr("__dlpack__")();
  }
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
    const auto* managed = static_cast<const DlManagedVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->version.major != 1)
      reject(name_, "exports DLPack " + std::to_string(managed->version.major) + "; allowed: 1");
    view_.read_only = (managed->flags & dl_read_only) != 0;
    read_tensor(managed->tensor);
  } else {
    const auto* managed = static_cast<const DlManaged*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    if (managed == nullptr) throw nb::python_error();
    read_tensor(managed->tensor);
  }
  owner_ = std::move(capsule);  // still named as unused: the capsule releases the tensor
  return true;
}

void check_view(const ArrayView& view, const ArrayInfo& info, const DeviceInfo& device) {
  const std::string& name = info.name;
  const auto rank = static_cast<std::size_t>(view.rank);
  if (!fits(view.type, info.dtype)) {
    reject(name, "holds " + describe_type(view.type) + "; expected " + std::string(tunesmith::name(info.dtype)));
  }
  if (!std::equal(info.shape.begin(), info.shape.end(), view.shape.begin(), view.shape.begin() + view.rank))
    reject(name, "has the shape " + shape_text(std::span(view.shape.data(), rank)) + "; expected " + shape_text(info.shape));
  if (info.elements() > 0)
    for (std::size_t d = 0; d < rank; ++d)
      if (view.shape[d] > 1 && view.strides[d] != info.strides[d])
        reject(name, "has the strides " + shape_text(std::span(view.strides.data(), rank)) + "; the plan is for " +
                         shape_text(info.strides));
  if (info.output && view.read_only) reject(name, "is read-only; expected an array to write to");
  const bool on_gpu = view.device.type == dl_cuda || view.device.type == dl_cuda_managed;
  if (on_gpu == (device.kind == DeviceInfo::Kind::host) && view.device.type != dl_cuda_managed)
    reject(name,
           on_gpu ? "is on a GPU; the engine runs on the CPU" : "is in host memory; the engine runs on " + device.name);
  if (view.device.type == dl_cuda && view.known_ordinal && view.device.id != device.ordinal)
    reject(name,
           "is on GPU " + std::to_string(view.device.id) + "; the engine runs on GPU " + std::to_string(device.ordinal));
}

}  // namespace tunesmith::python
