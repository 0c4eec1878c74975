// Hopper's tensor cores for the host executor: the functions of templates/device/wgmma_cuda.cuh on the CPU. Change both
// together. No include guard: see tunesmith_platform_host.h.

namespace tunesmith {

template <typename Registers>
__device__ __forceinline__ void pin(Registers&) {}
__device__ __forceinline__ int here(int value) { return value; }

template <typename... Registers>
__device__ __forceinline__ void wgmma_fence(Registers&...) {}
__device__ __forceinline__ void wgmma_commit() { host::services().product_commit(host::self()); }
template <int pending, typename... Registers>
__device__ __forceinline__ void wgmma_wait(Registers&...) {
  host::services().product_wait(host::self(), pending);
}

template <int n>
struct Wgmma {
  template <typename T, Innermost b_order>
  __device__ __forceinline__ static tunesmith_host_abi::MatrixProduct product(float (&d)[n / 2], uint64 b, bool accumulate) {
    static_assert(is_same<T, bf16> || is_same<T, f16>, "the element types of these instructions");
    tunesmith_host_abi::MatrixProduct made{};
    made.d = d;
    made.n = n;
    made.is_bf16 = is_same<T, bf16>;
    made.accumulates = accumulate;
    made.n_innermost = b_order == Innermost::n;
    made.b = b;
    return made;
  }
  template <typename T, Innermost b_order>
  __device__ __forceinline__ static void multiply(float (&d)[n / 2], uint64 a, uint64 b, bool accumulate) {
    tunesmith_host_abi::MatrixProduct made = product<T, b_order>(d, b, accumulate);
    made.a = a;
    host::services().product(host::self(), made);
  }
  /// Gathers the two rows of A that the thread's accumulators need from the four lanes that hold them.
  template <typename T, Innermost b_order>
  __device__ static void multiply(float (&d)[n / 2], const uint32 (&a)[4], uint64 b, bool accumulate) {
    tunesmith_host_abi::MatrixProduct made = product<T, b_order>(d, b, accumulate);
    made.a_in_registers = true;
    const int first = lane_index() / 4 * 4;
    for (int half = 0; half < 2; ++half) {  // columns 0 to 7 and 8 to 15
      const uint64* const words =
          host::gather(host::two_words(a[2 * half], a[2 * half + 1]), tunesmith_host_abi::Collective::warpgroup_product);
      for (int i = 0; i < 4; ++i)
        for (int row = 0; row < 2; ++row)
          for (int element = 0; element < 2; ++element)
            made.rows[row][8 * half + 2 * i + element] = static_cast<uint16>(words[first + i] >> (32 * row + 16 * element));
    }
    host::services().product(host::self(), made);
  }
};

/// Of device/wgmma_transposed.cuh.
template <int n>
struct WgmmaTransposed {
  template <typename T, Innermost b_order>
  __device__ __forceinline__ static void multiply(float (&d)[n / 2], uint64 a, uint64 b, bool accumulate) {
    tunesmith_host_abi::MatrixProduct made = Wgmma<n>::template product<T, b_order>(d, b, accumulate);
    made.a = a;
    made.m_innermost = true;
    host::services().product(host::self(), made);
  }
};

}  // namespace tunesmith

// A source defines the instructions that it uses; here Wgmma is defined for any n.
#undef TUNESMITH_WGMMA_TRANSPOSED_64
#define TUNESMITH_WGMMA_TRANSPOSED_64
#undef TUNESMITH_WGMMA_TRANSPOSED_128
#define TUNESMITH_WGMMA_TRANSPOSED_128
#undef TUNESMITH_WGMMA_TRANSPOSED_192
#define TUNESMITH_WGMMA_TRANSPOSED_192
#undef TUNESMITH_WGMMA_TRANSPOSED_256
#define TUNESMITH_WGMMA_TRANSPOSED_256
#undef TUNESMITH_WGMMA_8
#define TUNESMITH_WGMMA_8
#undef TUNESMITH_WGMMA_16
#define TUNESMITH_WGMMA_16
#undef TUNESMITH_WGMMA_24
#define TUNESMITH_WGMMA_24
#undef TUNESMITH_WGMMA_32
#define TUNESMITH_WGMMA_32
#undef TUNESMITH_WGMMA_40
#define TUNESMITH_WGMMA_40
#undef TUNESMITH_WGMMA_48
#define TUNESMITH_WGMMA_48
#undef TUNESMITH_WGMMA_56
#define TUNESMITH_WGMMA_56
#undef TUNESMITH_WGMMA_64
#define TUNESMITH_WGMMA_64
#undef TUNESMITH_WGMMA_72
#define TUNESMITH_WGMMA_72
#undef TUNESMITH_WGMMA_80
#define TUNESMITH_WGMMA_80
#undef TUNESMITH_WGMMA_88
#define TUNESMITH_WGMMA_88
#undef TUNESMITH_WGMMA_96
#define TUNESMITH_WGMMA_96
#undef TUNESMITH_WGMMA_104
#define TUNESMITH_WGMMA_104
#undef TUNESMITH_WGMMA_112
#define TUNESMITH_WGMMA_112
#undef TUNESMITH_WGMMA_120
#define TUNESMITH_WGMMA_120
#undef TUNESMITH_WGMMA_128
#define TUNESMITH_WGMMA_128
#undef TUNESMITH_WGMMA_136
#define TUNESMITH_WGMMA_136
#undef TUNESMITH_WGMMA_144
#define TUNESMITH_WGMMA_144
#undef TUNESMITH_WGMMA_152
#define TUNESMITH_WGMMA_152
#undef TUNESMITH_WGMMA_160
#define TUNESMITH_WGMMA_160
#undef TUNESMITH_WGMMA_168
#define TUNESMITH_WGMMA_168
#undef TUNESMITH_WGMMA_176
#define TUNESMITH_WGMMA_176
#undef TUNESMITH_WGMMA_184
#define TUNESMITH_WGMMA_184
#undef TUNESMITH_WGMMA_192
#define TUNESMITH_WGMMA_192
#undef TUNESMITH_WGMMA_200
#define TUNESMITH_WGMMA_200
#undef TUNESMITH_WGMMA_208
#define TUNESMITH_WGMMA_208
#undef TUNESMITH_WGMMA_216
#define TUNESMITH_WGMMA_216
#undef TUNESMITH_WGMMA_224
#define TUNESMITH_WGMMA_224
#undef TUNESMITH_WGMMA_232
#define TUNESMITH_WGMMA_232
#undef TUNESMITH_WGMMA_240
#define TUNESMITH_WGMMA_240
#undef TUNESMITH_WGMMA_248
#define TUNESMITH_WGMMA_248
#undef TUNESMITH_WGMMA_256
#define TUNESMITH_WGMMA_256
