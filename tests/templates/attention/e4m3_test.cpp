// e4m3 keys and values with 16-bit queries: numerics on the host executor compared with float64, for every variant, kind of
// scales and layout; and what kv_append writes to such a cache.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/half.h"
#include "tests/support/host_kernels.h"
#include "tests/support/mutations.h"
#include "tests/templates/attention/mods.h"
#include "tuner/verify.h"
#include "tunesmith/attention_backward.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using test::AttentionArraysOnHost;
using test::Case;

constexpr const char* kinds[] = {"", ",kv_scales=tensor", ",kv_scales=head", ",kv_scales=batch_head",
                                 ",kv_scales=token_head"};
constexpr const char* split = "variant=split,warps=2,tile_kv=32,splits=2";
constexpr const char* cluster = "variant=split,warps=2,tile_kv=32,cluster=2";
constexpr const char* mma = "variant=mma,tile_q=32,warps=2,tile_kv=32,stages=1";
constexpr const char* simt = "variant=simt,tile_q=16,tile_kv=32,threads=64";

class AttentionE4m3 : public test::OptimizedHostKernels {
 protected:
  Case case_of(const std::string& fields, const std::string& config) {
    return test::case_of("attention", fields + ",kv_dtype=e4m3", device_.info(), config);
  }
  static void run(const Executable& executable, const AttentionArraysOnHost& arrays) {
    std::vector<void*> addresses;
    for (const HostArray& array : arrays.all()) addresses.push_back(array.data);
    executable.enqueue(addresses, nullptr);
  }
  static std::vector<double> outputs(const AttentionArraysOnHost& arrays) {
    std::vector<double> all;
    for (const char* name : {"o", "lse"})
      for (std::int64_t i = 0; i < arrays[name].info.elements(); ++i) all.push_back(arrays.real(name, i));
    return all;
  }
};

// Inputs have edge cases: lengths of 0, pages that are shared or unused, NaN in slots and scales that no length reaches.
TEST_F(AttentionE4m3, EveryVariantScaleAndLayout) {
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const char* kind : kinds)
    for (const char* layout :
         {"batch=3,seq_q=3,seq_kv=150", "batch=3,seq_q=3,seq_kv=150,layout=bhsd,kv_lengths=1",
          "batch=7,seq_q=2,page_size=16,max_pages=9,pages=40,causal=bottom-right",
          "batch=7,seq_q=2,page_size=5,max_pages=31,pages=150,layout=bhsd",
          "batch=7,seq_q=4,varlen=1,total_q=17,page_size=64,max_pages=3,pages=14,causal=bottom-right,window_left=70",
          "batch=5,seq_q=9,seq_kv=90,varlen=1,total_q=30,total_kv=280"})
      for (const char* dims : {"head_dim=64,heads=4,kv_heads=2", "head_dim=48,head_dim_v=80,heads=6,kv_heads=2"}) {
        const char* const configs[] = {split,
                                       mma,
                                       cluster,
                                       simt,
                                       "variant=mma,tile_q=16,warps=1,tile_kv=64,stages=2",
                                       "variant=split,tile_q=32,warps=1,tile_kv=64,stages=2"};
        const std::size_t other = turn++ / 12;  // of 12 problems with each kind of scales
        const std::string dtype = (turn / 2 + other) % 2 == 0 ? ",dtype=bf16" : ",dtype=f16";
        cases.push_back(
            case_of(std::string(dims) + "," + layout + kind + dtype, configs[(turn + other) % std::size(configs)]));
      }
  verify_all(cases);
}

// Options are applied to scores, so K's scale comes before them.
TEST_F(AttentionE4m3, OptionsAndUserFunctions) {
  std::vector<Case> cases;
  const std::string fields = "batch=2,seq_q=33,seq_kv=99,head_dim=32,heads=4,kv_heads=2";
  for (const char* options : {",softcap=5", ",alibi=1,sinks=1", ",softcap=30,alibi=1,causal=bottom-right,dtype=f16"})
    for (const char* kind : {"", ",kv_scales=head", ",kv_scales=token_head"})
      for (const char* config : {mma, simt}) cases.push_back(case_of(fields + options + kind, config));
  for (const char* kind : {",kv_scales=batch_head", ",kv_scales=token_head"}) {
    cases.push_back(
        case_of("batch=2,seq_q=3,seq_kv=99,head_dim=32,heads=4,kv_heads=2,softcap=5,sinks=1" + std::string(kind), split));
    const Problem problem = test::modified(
        "batch=2,seq_q=5,seq_kv=99,head_dim=32,heads=4,kv_heads=2,kv_dtype=e4m3" + std::string(kind),
        {{"score_mod", test::mod_example("softcap")},
         {"mask_mod",
          "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) { return (q + k + h) % 3 > 0; }"},
         {"aux", "cap:f32=3"}});
    for (const char* config : {split, "variant=mma,tile_q=16,warps=1,tile_kv=32", simt})
      cases.push_back(test::case_of(problem, device_.info(), config));
  }
  verify_all(cases);
}

// Rows at odd strides and addresses, scales with free strides, such as those stored next to their rows; float32 queries.
TEST_F(AttentionE4m3, StridesAndAlignment) {
  std::vector<Case> cases;
  const std::string paged = "batch=4,seq_q=2,page_size=8,max_pages=9,pages=30,heads=4,kv_heads=2,kv_scales=token_head";
  for (const char* strides :
       {",k_head_stride=67,k_seq_stride=150,v_alignment=2", ",k_alignment=1,v_head_stride=72,v_seq_stride=160",
        ",k_scale_head_stride=17,k_scale_seq_stride=40,k_scale_batch_stride=1000,v_scale_head_stride=40",
        ",k_head_stride=0,v_head_stride=0,k_scale_head_stride=0,v_scale_batch_stride=0"})
    for (const char* config : {split, mma, simt}) cases.push_back(case_of(paged + strides + ",head_dim=64", config));
  cases.push_back(case_of(paged + ",head_dim=40,head_dim_v=72,dtype=f32", simt));
  cases.push_back(case_of(paged + ",head_dim=8,head_dim_v=24", simt));
  verify_all(cases);
}

// Without scales a kernel computes what it computes of the same numbers as 16-bit floats. simt has the same bits. Kernels on
// tensor cores take the elements of a head in another order, so sums of integers have the same bits; and they round weights
// to f16, as the kernel with f16 queries does.
TEST_F(AttentionE4m3, BitsAreThoseOfSixteenBitKeys) {
  const std::string fields = "batch=2,heads=4,kv_heads=2,seq_q=3,seq_kv=90,head_dim=32,dtype=f16";
  for (const char* config : {split, cluster, mma, simt}) {
    const bool integers = std::string_view(config) != simt;
    std::vector<double> first;
    const Case bytes = case_of(fields, config), half = test::case_of("attention", fields, device_.info(), config);
    with_executables({bytes, half}, [&](const Case& c, const Executable& executable) {
      const AttentionArraysOnHost arrays(c.problem, 3);
      for (const char* name : {"q", "k", "v"})
        for (std::int64_t i = 0; i < arrays[name].info.elements(); ++i) {
          const double value = std::sin(static_cast<double>(i) * 1.7 + *name) * 5;
          // What e4m3 holds, also for the 16-bit kernel.
          std::byte byte{};
          write_element(DType::e4m3, &byte, 0, static_cast<float>(integers && *name != 'v' ? std::round(value) : value));
          write_element(arrays[name].info.dtype, arrays[name].data, i,
                        static_cast<float>(read_element(DType::e4m3, &byte, 0)));
        }
      run(executable, arrays);
      if (first.empty())
        first = outputs(arrays);
      else
        EXPECT_EQ(first, outputs(arrays)) << config;
    });
  }
}

// All 256 values of a byte reach the output exactly; both NaN stay NaN.
TEST_F(AttentionE4m3, EveryByte) {
  for (const char* dtype : {",dtype=bf16", ",dtype=f16"})
    for (const char* config : {split, "variant=mma,tile_q=16,warps=1,tile_kv=32", simt})
      with_executables(
          {case_of("seq_q=1,seq_kv=1,head_dim=256" + std::string(dtype), config)},
          [&](const Case&, const Executable& executable) {
            const AttentionArraysOnHost arrays(
                test::normalized("attention", "seq_q=1,seq_kv=1,head_dim=256,kv_dtype=e4m3" + std::string(dtype)), 3);
            for (std::int64_t i = 0; i < 256; ++i) arrays["v"].data[i] = static_cast<std::byte>(i);
            run(executable, arrays);
            for (std::int64_t i = 0; i < 256; ++i)
              if (i % 128 == 127)
                EXPECT_TRUE(std::isnan(arrays.real("o", i))) << config << dtype << ", byte " << i;
              else
                EXPECT_EQ(arrays.real("o", i), arrays.real("v", i)) << config << dtype << ", byte " << i;
          });
}

// What kv_append divides by a scale and rounds, attention multiplies by it: the result is that of the keys and values
// before, within half a unit of e4m3.
TEST_F(AttentionE4m3, CacheThatKvAppendWrites) {
  constexpr std::int64_t page = 8, pages = 9, keys = 40, heads = 2, width = 32;
  const Case append = HostKernels::case_of("kv_append",
                                           "tokens=40,kv_heads=2,head_dim=32,dtype=bf16,cache_dtype=e4m3,scales=head,"
                                           "page_size=8,pages=9",
                                           "");
  const std::string fields = "batch=1,seq_q=1,heads=2,head_dim=32,page_size=8,pages=9,max_pages=5,kv_scales=head";
  for (const char* config : {split, "variant=mma,tile_q=16,warps=1,tile_kv=32", simt}) {
    const Case attend = case_of(fields, config);
    const AttentionArraysOnHost written(append.problem, 5), arrays(attend.problem, 6);
    with_executables({append, attend}, [&](const Case& c, const Executable& executable) {
      if (c.problem.op == "kv_append") {
        for (std::int64_t i = 0; i < keys; ++i) {
          write_integer(DType::i32, arrays["block_table"].data, i / page, (i / page * 4 + 3) % pages);
          write_integer(DType::i64, written["slot_mapping"].data, i, (i / page * 4 + 3) % pages * page + i % page);
        }
        for (std::int64_t h = 0; h < heads; ++h) {
          write_element(DType::f32, written["k_scale"].data, h, h == 0 ? 0.01F : 0.3F);
          write_element(DType::f32, written["v_scale"].data, h, h == 0 ? 0.02F : 0.005F);
        }
        return run(executable, written);
      }
      write_integer(DType::i32, arrays["kv_lengths"].data, 0, keys);
      for (const auto& [from, to] :
           {std::pair("k_cache", "k"), {"v_cache", "v"}, {"k_scale", "k_scale"}, {"v_scale", "v_scale"}})
        std::memcpy(arrays[to].data, written[from].data, static_cast<std::size_t>(arrays[to].info.extent_bytes()));
      run(executable, arrays);
      const CheckResult check = c.op().parse(c.problem)->check(arrays.all(), 100);
      EXPECT_TRUE(check.passed) << check.first_failure;
      for (std::int64_t h = 0; h < heads; ++h) {
        std::vector<double> weights;
        double sum = 0;
        for (std::int64_t j = 0; j < keys; ++j) {
          double dot = 0;
          for (std::int64_t i = 0; i < width; ++i)
            dot += arrays.real("q", h * width + i) * written.real("k", (j * heads + h) * width + i);
          sum += weights.emplace_back(std::exp(dot / std::sqrt(static_cast<double>(width))));
        }
        for (std::int64_t i = 0; i < width; ++i) {
          double expected = 0;
          for (std::int64_t j = 0; j < keys; ++j)
            expected += weights[static_cast<std::size_t>(j)] / sum * written.real("v", (j * heads + h) * width + i);
          EXPECT_NEAR(arrays.real("o", h * width + i), expected, 0.06) << config << ", head " << h << ", " << i;
        }
      }
    });
  }
}

// Each mutation takes one scale, row or column for another.
TEST_F(AttentionE4m3, MutationsAreDetected) {
  const std::string fields = "batch=4,seq_q=2,heads=4,kv_heads=2,head_dim=64,page_size=16,max_pages=9,pages=40";
  for (const char* config : {split, mma})
    test::expect_detected(
        case_of(
            fields + ",dtype=f16,kv_scales=token_head,v_scale_head_stride=17,v_scale_seq_stride=1,v_scale_batch_stride=40",
            config),
        {{"2 * step + lane % 4 / 2", "2 * step + lane % 4 % 2"},
         {"with_inner_bytes_swapped(bytes[i])", "bytes[i]"},
         {"b[2 * half + 1][odd]", "b[2 * half][odd]"},
         {"8 * tile + warp_lane % 4 * 2", "8 * tile"},
         {"*scale = 0.0f;", std::string_view(config) == split ? "{}" : "*scale = __builtin_nanf(\"\");"},
         {"source.row(first + row, sequence_.seq_kv)", "source.row(first, sequence_.seq_kv)"},
         {"scales_of<shape>(params_).v_strides", "scales_of<shape>(params_).k_strides"},
         {"If<shape.rows_scaled, bf16, f16>::type", "If<shape.rows_scaled, f16, bf16>::type"}},
        device_, compiler_);
  for (const char* config : {split, mma, simt})
    test::expect_detected(case_of(fields + ",kv_scales=batch_head,softcap=3", config),
                          {{"batch * strides.batch + kv_head * strides.head", "kv_head * strides.head"},
                           {"batch * strides.batch + kv_head * strides.head", "batch * strides.batch"}},
                          device_, compiler_);
}

TEST(AttentionE4m3Description, FieldsArraysAndErrors) {
  const auto expect_error = [](const std::string& fields, const std::vector<const char*>& parts) {
    try {
      test::normalized("attention", "batch=3,heads=4,kv_heads=2,seq_q=1,head_dim=64" + fields);
      ADD_FAILURE() << fields << " was accepted";
    } catch (const Error& error) {
      for (const char* part : parts)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what() << " lacks " << part;
    }
  };
  expect_error(",kv_dtype=f16", {"kv_dtype is f16, but dtype is bf16; allowed: bf16 and e4m3"});
  expect_error(",kv_dtype=e5m2", {"kv_dtype is 'e5m2'; allowed: f32, f16, bf16, e4m3"});
  expect_error(",kv_scales=head", {"kv_scales", "kv_dtype=e4m3"});
  expect_error(",kv_dtype=e4m3,kv_scales=head,k_scale_head_stride=2", {"k_scale_head_stride", "kv_scales=token_head"});
  expect_error(",kv_dtype=e4m3,dropout=0.1", {"dropout is 0.1; allowed with kv_dtype=e4m3: 0"});
  AttentionBackwardProblem backward{};
  backward.seq_q = 4;
  backward.kv_dtype = DType::e4m3;
  EXPECT_THROW(find_op("attention_backward").parse_typed(typeid(backward), &backward), Error);

  const auto shape_of = [](const std::string& fields, const std::string& name) {
    const Problem problem = test::normalized("attention", "batch=3,heads=4,kv_heads=2,seq_q=1,head_dim=64" + fields);
    EXPECT_EQ(find_op("attention").normalize(problem), problem);
    for (const ArrayInfo& info : find_op("attention").parse(problem)->arrays())
      if (info.name == name) return info.shape;
    return std::vector<std::int64_t>();
  };
  using Shape = std::vector<std::int64_t>;
  const std::string bytes = ",kv_dtype=e4m3,kv_scales=", pages = ",page_size=16,max_pages=9,pages=50";
  EXPECT_EQ(shape_of(",kv_dtype=bf16", "k_scale"), Shape());
  EXPECT_EQ(shape_of(",kv_dtype=e4m3", "k_scale"), Shape());
  EXPECT_EQ(shape_of(bytes + "tensor", "k_scale"), Shape{1});
  EXPECT_EQ(shape_of(bytes + "head", "v_scale"), Shape{2});
  EXPECT_EQ(shape_of(bytes + "batch_head" + pages, "v_scale"), (Shape{3, 2}));
  EXPECT_EQ(shape_of(bytes + "token_head,seq_kv=7", "v_scale"), (Shape{3, 7, 2}));
  EXPECT_EQ(shape_of(bytes + "token_head,layout=bhsd" + pages, "k_scale"), (Shape{50, 2, 16}));
  EXPECT_EQ(shape_of(bytes + "token_head,varlen=1,total_q=2,total_kv=3", "k_scale"), (Shape{3, 2}));

  const auto parsed = [&](const std::string& fields) {
    return find_op("attention")
        .parse(test::normalized("attention", "batch=2,heads=4,seq_q=64,head_dim=64" + fields + ",kv_dtype=e4m3"));
  };
  const DeviceInfo ampere = generic_device(parse_arch("sm_80")), ada = generic_device(parse_arch("sm_89")),
                   hopper = generic_device(parse_arch("sm_90a"));
  EXPECT_EQ(parsed("")->default_config(ampere).variant(), "simt");
  EXPECT_EQ(parsed("")->default_config(ada).variant(), "mma");
  EXPECT_EQ(parsed("")->default_config(hopper).variant(), "mma");
  EXPECT_EQ(parsed(",head_dim_v=72")->default_config(hopper).variant(), "simt");
  const Config wgmma = test::case_of("attention", "seq_q=64,head_dim=64", hopper, "variant=wgmma").config;
  EXPECT_NE(parsed("")->why_invalid(hopper, wgmma).find("wgmma has no 8-bit keys"), std::string::npos);
  // Scales of a tensor, a head, or a sequence and head are one kernel.
  EXPECT_EQ(parsed(",kv_scales=tensor")->key().problem_class, parsed(",kv_scales=batch_head")->key().problem_class);
  EXPECT_NE(parsed(",kv_scales=tensor")->key().problem_class, parsed(",kv_scales=token_head")->key().problem_class);
  EXPECT_NE(parsed(",kv_scales=tensor")->key().problem_class, parsed("")->key().problem_class);
  EXPECT_EQ(parsed(",kv_scales=tensor")->cost().bytes_read, 2.0 * 4 * 64 * 64 * (2 + 1 + 1) + 8);
}

}  // namespace
}  // namespace tunesmith
