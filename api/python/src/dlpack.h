#pragma once
// The binary interface of DLPack 1.3 (https://dmlc.github.io/dlpack/latest/c_api.html): tensors, and the table of functions
// that a tensor type offers as __dlpack_c_exchange_api__.

#include <cstdint>

namespace tunesmith::python {

struct DlVersion {
  std::uint32_t major, minor;
};

struct DlDevice {
  std::int32_t type;  ///< dl_cpu, dl_cuda, ...
  std::int32_t id;
};
inline constexpr std::int32_t dl_cpu = 1, dl_cuda = 2, dl_cuda_host = 3, dl_cuda_managed = 13;

struct DlType {
  std::uint8_t code;  ///< dl_int, dl_uint, ...
  std::uint8_t bits;
  std::uint16_t lanes;
};
inline constexpr std::uint8_t dl_int = 0, dl_uint = 1, dl_float = 2, dl_bfloat = 4, dl_bool = 6;
inline constexpr std::uint8_t dl_float8_e4m3fn = 10, dl_float8_e5m2 = 12;

struct DlTensor {
  void* data;
  DlDevice device;
  std::int32_t rank;
  DlType type;
  std::int64_t* shape;
  std::int64_t* strides;  ///< elements; null: contiguous
  std::uint64_t byte_offset;
};

/// What a capsule "dltensor" holds.
struct DlManaged {
  DlTensor tensor;
  void* context;
  void (*release)(DlManaged* self);
};

/// What a capsule "dltensor_versioned" holds.
struct DlManagedVersioned {
  DlVersion version;
  void* context;
  void (*release)(DlManagedVersioned* self);
  std::uint64_t flags;
  DlTensor tensor;
};
inline constexpr std::uint64_t dl_read_only = 1;

/// What a capsule "dlpack_exchange_api" holds. Functions return 0, or -1 with a Python exception.
struct DlExchange {
  DlVersion version;
  DlExchange* previous;
  void* allocate;
  void* managed_from_object;
  void* object_from_managed;
  int (*tensor_from_object)(void* object, DlTensor* out);  ///< borrows; may be null
  int (*current_stream)(std::int32_t device_type, std::int32_t device_id, void** out);
};

}  // namespace tunesmith::python
