#pragma once
// Drawn problems and configurations of matmul and linear_loss, for the host executor and for a GPU.

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/random/chance.h"

namespace tunesmith::test {

/// Fields of a problem, and its configuration.
using ProductCase = std::pair<std::string, std::string>;

/// Configurations of wgmma with every kind of cluster, tile and number of warpgroups. The default is the empty one.
inline const std::string wgmma_configs[] = {"variant=wgmma,consumers=1,tile_n=64,stages=2,cluster_m=1",
                                            "variant=wgmma,consumers=2,tile_n=128,stages=3,cluster_m=2,group=1",
                                            "variant=wgmma,consumers=2,tile_n=128,stages=2,cluster_n=2,cluster_m=1",
                                            "variant=wgmma,consumers=1,blocks_m=2,tile_n=64,stages=2,cluster_m=1",
                                            "variant=wgmma,consumers=2,tile_n=192,stages=2,group=2,cluster_m=1",
                                            "variant=wgmma,consumers=2,tile_n=256,stages=2,cluster_m=2",
                                            "variant=wgmma,consumers=2,tile_n=256,stages=4,cluster_m=2,group=16"};

inline std::string product_field(const char* name, int value) {
  return std::string(",") + name + "=" + std::to_string(value);
}

/// Every second case is wgmma, whose rows are aligned. Extents are drawn up to `largest`.
inline std::vector<ProductCase> matmul_cases(std::uint64_t seed, int count, int largest) {
  Chance chance(seed);
  const auto any = [&](int least, int most) { return least + static_cast<int>(chance.below(most - least + 1)); };
  const char* const dtypes[] = {"f32", "bf16", "f16", "bf16,out_dtype=f32", "f16,out_dtype=f32"};
  std::vector<ProductCase> cases;
  for (int i = 0; i < count; ++i) {
    const bool wgmma = i % 2 == 0;
    const int transpose_a = i / 2 % 3 == 2, transpose_b = i / 2 % 3 == 0;
    const auto extent = [&](int most) { return wgmma ? 8 * any(1, most / 8) : any(1, most); };
    const int m = extent(largest), n = extent(largest), k = extent(largest * 2 / 3), pad = wgmma ? 8 * any(0, 2) : any(0, 9);
    std::string fields = std::string("dtype=") + dtypes[wgmma ? 1 + i / 2 % 4 : i / 2 % 5];
    fields += product_field("m", m) + product_field("n", n) + product_field("k", k) +
              product_field("transpose_a", transpose_a) + product_field("transpose_b", transpose_b) +
              product_field("a_row_stride", (transpose_a ? m : k) + pad) + product_field("c_row_stride", n + pad);
    for (const char* option : {"accumulate", "factor", "row_factors", "bias"})
      if (any(0, 2) == 0) fields += product_field(option, 1);
    const std::string simt = i % 4 == 1 ? "variant=simt,tile=32,tile_k=8" : "variant=simt";
    std::string config = wgmma ? wgmma_configs[static_cast<std::size_t>(i) / 2 % std::size(wgmma_configs)] : simt;
    if (wgmma && i % 3 == 0 && k > 128) config += ",splits=" + std::to_string(any(2, 3));
    cases.emplace_back(fields, config);
  }
  return cases;
}

/// Every option; two cases of three are wgmma.
inline std::vector<ProductCase> linear_loss_cases(std::uint64_t seed, int count, int max_tokens, int max_hidden,
                                                  int max_classes) {
  Chance chance(seed);
  const auto any = [&](int least, int most) { return least + static_cast<int>(chance.below(most - least + 1)); };
  const char* const options[] = {"",
                                 ",gradient=1",
                                 ",gradient=1,dloss=scalar,z_loss=1e-3,target_dtype=i32",
                                 ",gradient=1,dloss=row,scale=0.5,softcap=30,nll=1",
                                 ",z_loss=1e-4,softcap=20,nll=1,entropy=1",
                                 ",gradient=1,dloss=row,z_loss=0.01,softcap=50",
                                 ",gradient=1,scale=2,ignore_index=0,entropy=1"};
  std::vector<ProductCase> cases;
  for (int i = 0; i < count; ++i) {
    const bool wgmma = i % 3 != 2;
    const int classes = i % 10 == 4 ? 1 : any(2, max_classes);
    std::string fields = std::string("dtype=") + (wgmma || i % 2 == 0 ? "bf16" : "f32") +
                         product_field("tokens", any(1, max_tokens)) +
                         product_field("hidden_size", wgmma ? 8 * any(1, max_hidden / 8) : any(1, max_hidden)) +
                         product_field("vocab_size", classes) + options[static_cast<std::size_t>(i) % std::size(options)];
    if (i % 4 == 1 && wgmma) fields += product_field("exponentials_row_stride", (classes + 63) / 64 * 64);
    cases.emplace_back(
        fields, wgmma ? wgmma_configs[static_cast<std::size_t>(i) % std::size(wgmma_configs)] : "variant=simt,tile=32");
  }
  return cases;
}

/// Every option of the gradient; shapes as above.
inline std::vector<ProductCase> linear_loss_backward_cases(std::uint64_t seed, int count, int max_tokens, int max_hidden,
                                                           int max_classes) {
  const char* const options[] = {"", ",dlse=1,z_loss=0.01", ",dentropy=1",
                                 ",dloss=scalar,dlse=1,dentropy=1,scale=0.5,softcap=30,target_dtype=i32",
                                 ",dloss=none,softcap=20"};
  std::vector<ProductCase> cases = linear_loss_cases(seed, count, max_tokens, max_hidden, max_classes);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::string& fields = cases[i].first;
    fields.resize(std::min(fields.find(',', fields.find("vocab_size=")), fields.size()));
    fields += options[i % std::size(options)];
  }
  return cases;
}

}  // namespace tunesmith::test
