// Tensor cores for the host executor: the functions of templates/device/matrix_cuda.cuh on the CPU. Change both together.
// No include guard: see tunesmith_platform_host.h, which precedes this file.

namespace tunesmith {

namespace host {
/// Unpacks the two elements of a 32-bit fragment register.
template <typename Element>
__device__ __forceinline__ void unpack_pair(uint32 word, float* pair) {
  pair[0] = to_float(Element{static_cast<uint16>(word)});
  pair[1] = to_float(Element{static_cast<uint16>(word >> 16)});
}

/// Multiplies fragments. Every lane gathers the two rows of a and the two columns of b that its four results need. Products
/// of 16-bit floats are exact in float and are added in the order of k, each sum rounded to nearest. Tensor cores add
/// several products at once, aligned to the largest and truncated, so results are equal only if every sum is exact.
template <typename Element>
__device__ void multiply_accumulate(float (&d)[4], const uint32 (&a)[4], const uint32 (&b)[2]) {
  constexpr auto collective = tunesmith_host_abi::Collective::multiply_accumulate;
  const int lane = tunesmith_host_abi::current_thread().lane;
  const int row = lane / 4, column = lane % 4 * 2;
  float rows[2][16], columns[2][16];
  for (int half = 0; half < 2; ++half) {
    const uint64* const words = gather(two_words(a[2 * half], a[2 * half + 1]), collective);
    for (int i = 0; i < 4; ++i) {
      const uint64 pairs = words[row * 4 + i];
      unpack_pair<Element>(static_cast<uint32>(pairs), &rows[0][half * 8 + i * 2]);
      unpack_pair<Element>(static_cast<uint32>(pairs >> 32), &rows[1][half * 8 + i * 2]);
    }
  }
  const uint64* const words = gather(two_words(b[0], b[1]), collective);
  for (int n = 0; n < 2; ++n)
    for (int i = 0; i < 4; ++i) {
      const uint64 pairs = words[(column + n) * 4 + i];
      unpack_pair<Element>(static_cast<uint32>(pairs), &columns[n][i * 2]);
      unpack_pair<Element>(static_cast<uint32>(pairs >> 32), &columns[n][8 + i * 2]);
    }
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 16; ++k) d[i] = d[i] + rows[i / 2][k] * columns[i % 2][k];
}
}  // namespace host

template <typename Element>
__device__ __forceinline__ void multiply_accumulate_16x8x16(float (&)[4], const uint32 (&)[4], const uint32 (&)[2]) {
  static_assert(sizeof(Element) == 0, "tensor cores multiply f16 and, on sm_80 and later, bf16");
}
template <>
__device__ __forceinline__ void multiply_accumulate_16x8x16<f16>(float (&d)[4], const uint32 (&a)[4], const uint32 (&b)[2]) {
  host::multiply_accumulate<f16>(d, a, b);
}
#if TUNESMITH_SM >= 800
template <>
__device__ __forceinline__ void multiply_accumulate_16x8x16<bf16>(float (&d)[4], const uint32 (&a)[4],
                                                                  const uint32 (&b)[2]) {
  host::multiply_accumulate<bf16>(d, a, b);
}
#endif

/// Each lane reads its row when it arrives here. As on the GPU, a barrier must order the writes of other lanes before it.
__device__ inline void load_matrix_x4(uint32 (&r)[4], const void* shared_row, int offset = 0) {
  constexpr auto collective = tunesmith_host_abi::Collective::load_matrix_x4;
  shared_row = static_cast<const char*>(shared_row) + offset;
  host::check_shared("load_matrix_x4 from", shared_row, 16);
  const int lane = tunesmith_host_abi::current_thread().lane;
  const int row = lane / 4, word = lane % 4;
  uint64 halves[2];
  __builtin_memcpy(halves, shared_row, sizeof halves);
  for (int half = 0; half < 2; ++half) {
    const uint64* const rows = host::gather(halves[half], collective);
    for (int matrix = 0; matrix < 4 && half == word / 2; ++matrix)
      r[matrix] = static_cast<uint32>(rows[matrix * 8 + row] >> (word % 2 * 32));
  }
}
__device__ inline void load_matrix_x4_transposed(uint32 (&r)[4], const void* shared_row, int offset = 0) {
  constexpr auto collective = tunesmith_host_abi::Collective::load_matrix_x4_transposed;
  shared_row = static_cast<const char*>(shared_row) + offset;
  host::check_shared("load_matrix_x4_transposed from", shared_row, 16);
  const int lane = tunesmith_host_abi::current_thread().lane;
  const int row = lane % 4 * 2, element = lane / 4;
  uint64 halves[2];
  __builtin_memcpy(halves, shared_row, sizeof halves);
  for (int half = 0; half < 2; ++half) {
    const uint64* const rows = host::gather(halves[half], collective);
    for (int matrix = 0; matrix < 4 && half == element / 4; ++matrix) {
      const auto low = static_cast<uint16>(rows[matrix * 8 + row] >> (element % 4 * 16));
      const auto high = static_cast<uint16>(rows[matrix * 8 + row + 1] >> (element % 4 * 16));
      r[matrix] = static_cast<uint32>(high) << 16 | low;
    }
  }
}

#if TUNESMITH_SM >= 900
/// Stores four matrices; each lane writes the row whose address it passes.
__device__ inline void store_matrix_x4(void* shared_row, const uint32 (&r)[4]) {
  constexpr auto collective = tunesmith_host_abi::Collective::store_matrix_x4;
  host::check_shared("store_matrix_x4 to", shared_row, 16);
  const int lane = tunesmith_host_abi::current_thread().lane;
  const int matrix = lane / 8, row = lane % 8;
  uint32 words[4] = {};
  for (int half = 0; half < 2; ++half) {
    const uint64* const shares = host::gather(host::two_words(r[half * 2], r[half * 2 + 1]), collective);
    for (int i = 0; i < 4 && half == matrix / 2; ++i)
      words[i] = static_cast<uint32>(shares[row * 4 + i] >> (matrix % 2 * 32));
  }
  __builtin_memcpy(shared_row, words, sizeof words);
}
#endif

#if TUNESMITH_SM >= 800
__device__ __forceinline__ void async_copy_16(void* shared, const void* global, bool there) {
  host::check_aligned("async_copy_16 to", shared, 16);
  host::check_aligned("async_copy_16 from", global, 16);
  Bits<16> bits{};
  if (there) {
    host::check_global("async_copy_16 from", global);
    __builtin_memcpy(&bits, global, sizeof bits);
  }
  tunesmith_host_abi::services->async_copy(tunesmith_host_abi::current_thread(), shared, &bits, sizeof bits);
}
__device__ __forceinline__ void async_copy_16(void* shared, int offset, const void* global, bool there) {
  async_copy_16(static_cast<char*>(shared) + offset, global, there);
}
#endif

/// Computes log2(x), more exactly than the GPU. Flushes denormal inputs to 0, like lg2.approx.ftz.
__device__ __forceinline__ float log2_approx(float x) {
  if (__builtin_fabsf(x) < 0x1.0p-126f) return -__builtin_inff();
  return __builtin_log2f(x);
}

__device__ __forceinline__ float absolute(float x) { return __builtin_fabsf(x); }

}  // namespace tunesmith
