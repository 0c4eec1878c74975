// Numerics of user functions on the host executor: every shipped example compared with float64 computed here and with the
// equivalent options, the check that evaluates the user function itself, and compilation with NVRTC.

#include "tests/templates/attention/mods.h"

#include <cmath>
#include <ctime>

#include "api/engine/parts.h"
#include "core/half.h"
#include "tests/api/engine/host_options.h"
#include "tests/support/host_kernels.h"
#include "tuner/acceptance.h"
#include "tuner/evaluate.h"
#include "tuner/verify.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using test::AttentionArraysOnHost;
using test::Case;
using test::modified;

constexpr const char* numeric_shape = "batch=2,heads=4,kv_heads=2,seq_q=37,seq_kv=53,head_dim=16,dtype=f32";
constexpr double f32_tolerance = 1e-5;  // 53 keys, values of magnitude 1

class AttentionMods : public test::HostKernels {
 protected:
  Case case_of(const Problem& problem, const char* config = "variant=simt,tile_q=16,tile_kv=32,threads=64") {
    return HostKernels::case_of(problem, config);
  }

  void launch(const Executable& executable, const AttentionArraysOnHost& arrays) {
    std::vector<void*> addresses;
    for (const HostArray& array : arrays.all()) addresses.push_back(array.data);
    executable.enqueue(addresses, nullptr);
  }

  /// Returns the largest difference between the outputs of two problems with the same inputs.
  double largest_distance(const Problem& a, const Problem& b) {
    std::vector<std::unique_ptr<AttentionArraysOnHost>> results;
    with_executables({case_of(a), case_of(b)}, [&](const Case& c, const Executable& executable) {
      results.push_back(std::make_unique<AttentionArraysOnHost>(c.problem, 5));
      launch(executable, *results.back());
    });
    double distance = 0;
    for (const char* output : {"o", "lse"})
      for (std::int64_t i = 0; i < (*results[0])[output].info.elements(); ++i)
        distance = std::max(distance, std::fabs(results[0]->real(output, i) - results[1]->real(output, i)));
    return distance;
  }
};

struct Example {
  const char* name;
  const char* field;
  const char* aux;  ///< in addition to the declarations in the source
  std::function<test::ScoreMod(const AttentionArraysOnHost&)> score_mod;
  std::function<test::MaskMod(const AttentionArraysOnHost&)> mask_mod;

  Problem problem(const std::string& of = numeric_shape) const {
    std::vector<std::pair<std::string, std::string>> texts{{field, test::mod_example(name)}};
    if (*aux != '\0') texts.emplace_back("aux", aux);
    return modified(of, texts);
  }
};

using Int = std::int64_t;
constexpr Int offset = 53 - 37;

std::vector<Example> examples() {
  return {
      {"alibi", "score_mod", "",
       [](const AttentionArraysOnHost& arrays) {
         return [&](double score, Int, Int h, Int q, Int k) {
           return score - arrays.real("slopes", h) * static_cast<double>(std::abs(q + offset - k));
         };
       },
       nullptr},
      {"relative_bias", "score_mod", "",
       [](const AttentionArraysOnHost& arrays) {
         return [&](double score, Int, Int h, Int q, Int k) {
           return score + arrays.real("bias", h * (37 + 53 - 1) + k - q + 36);
         };
       },
       nullptr},
      {"document_mask", "mask_mod", "", nullptr,
       [](const AttentionArraysOnHost& arrays) {
         return [&](Int b, Int, Int q, Int k) {
           return arrays.integer("query_document", b * 37 + q) == arrays.integer("key_document", b * 53 + k);
         };
       }},
      {"prefix_lm", "mask_mod", "", nullptr,
       [](const AttentionArraysOnHost& arrays) {
         return [&](Int b, Int, Int q, Int k) { return k < arrays.integer("prefix", b) || k <= q + offset; };
       }},
      {"dilated_window", "mask_mod", "window:i32=5;dilation:i32=3", nullptr,
       [](const AttentionArraysOnHost&) {
         return [](Int, Int, Int q, Int k) {
           const Int distance = q + offset - k;
           return distance >= 0 && distance < 15 && distance % 3 == 0;
         };
       }},
      {"softcap", "score_mod", "cap:f32=0.75",
       [](const AttentionArraysOnHost&) {
         return [](double score, Int, Int, Int, Int) { return 0.75 * std::tanh(score / 0.75); };
       },
       nullptr},
  };
}

TEST_F(AttentionMods, EveryExampleIsCorrect) {
  const std::vector<Example> all = examples();
  std::vector<Case> cases;
  for (const Example& example : all) cases.push_back(case_of(example.problem()));
  std::size_t next = 0;
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    const Example& example = all[next++];
    SCOPED_TRACE(example.name);
    const AttentionArraysOnHost arrays(c.problem, 5);
    if (example.name == std::string("prefix_lm"))  // sees more than causal attention
      for (Int b = 0; b < 2; ++b) write_integer(DType::i32, arrays["prefix"].data, b, b == 0 ? 41 : 23);
    launch(executable, arrays);
    EXPECT_LE(test::largest_difference(c.problem, arrays, example.score_mod ? example.score_mod(arrays) : nullptr,
                                       example.mask_mod ? example.mask_mod(arrays) : nullptr),
              f32_tolerance);
    EXPECT_GT(test::largest_difference(c.problem, arrays, nullptr, nullptr), 100 * f32_tolerance) << "it changes nothing";

    // The check does not know the example; it evaluates the user function.
    const CheckResult check =
        c.op().parse(c.problem)->check_outputs(arrays.all(), 1000, evaluate_on(device_, executable.module()));
    EXPECT_TRUE(check.passed) << check.first_failure;
    EXPECT_EQ(check.checked_rows, 2 * 4 * 37);
    EXPECT_NE(check.note.find("score_mod"), std::string::npos);
    EXPECT_LT(check.allowed_error, 3e-4);
    EXPECT_THROW((void)c.op().parse(c.problem)->check(arrays.all(), 1000), Error);
    reinterpret_cast<float*>(arrays["o"].data)[1000] += 1e-3f;
    EXPECT_FALSE(
        c.op().parse(c.problem)->check_outputs(arrays.all(), 1000, evaluate_on(device_, executable.module())).passed);
  });
}

// Verifies candidates like the tuner: poisoned outputs, edge-case inputs, half precision, packed sequences, other options.
TEST_F(AttentionMods, CandidatesAreVerified) {
  std::vector<Case> cases;
  const char* const split = "variant=split,warps=2,tile_kv=16,splits=2";
  const char* const cluster = "variant=split,warps=2,tile_kv=16,cluster=4";
  for (const Example& example : examples()) {
    for (const char* config : {"variant=simt,tile_q=16,tile_kv=32,threads=64", "variant=mma"})
      cases.push_back(
          case_of(example.problem("batch=2,heads=4,kv_heads=2,seq_q=77,seq_kv=81,head_dim=16,dtype=bf16"), config));
    cases.push_back(case_of(example.problem("batch=2,heads=4,kv_heads=2,seq_q=11,seq_kv=81,head_dim=16,dtype=bf16"), split));
    cases.push_back(
        case_of(example.problem("batch=2,heads=4,kv_heads=2,seq_q=5,seq_kv=81,head_dim=16,dtype=bf16"), cluster));
  }
  const Problem packed = modified(
      "batch=3,heads=2,seq_q=40,seq_kv=67,head_dim=24,dtype=f16,causal=bottom-right,alibi=1,sinks=1,softcap=3,window_left="
      "31,"
      "varlen=1,total_q=120,total_kv=201",
      {{"score_mod", test::mod_example("softcap")}, {"mask_mod", R"(
// aux: flags:u8[total_kv]; shift:i64=3
__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) { return aux.flags[k] != 0 || (q + aux.shift) % 2 == h; }
)"}});
  for (const char* config : {"variant=simt,tile_q=16,tile_kv=32,threads=64", "variant=mma", split, cluster})
    cases.push_back(case_of(packed, config));
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    const CheckResult check = verify(*c.op().parse(c.problem), executable, device_, 3);
    EXPECT_TRUE(check.passed) << c.problem.short_text() << ": " << check.first_failure;
  });
}

TEST_F(AttentionMods, CheckDetectsAWrongKeyIndex) {
  const Case c = case_of(examples()[1].problem());
  std::string source = render(*c.op().parse(c.problem), c.config);
  const std::string right = "Modification::score(score, batch_, head_, query, first + at,";
  const std::size_t at = source.find(right);
  ASSERT_NE(at, std::string::npos);
  source.replace(at, right.size(), "Modification::score(score, batch_, head_, query, (first + at) ^ 1,");
  const auto module = device_.load(compiler_.compile({"attention.cu", source, device_.info().arch}));
  const Executable executable(device_, module, c.op().parse(c.problem)->launch_plan(c.config, device_.info()));
  const CheckResult check = verify(*c.op().parse(c.problem), executable, device_, 3);
  EXPECT_FALSE(check.passed);
  EXPECT_NE(check.first_failure.find("the reference is"), std::string::npos) << check.first_failure;
}

TEST_F(AttentionMods, UserFunctionEqualsTheBuiltInOption) {
  // A cap of 2 changes most scores. The host executor's __tanhf is exact: scores differ by at most cap * 2^-20, and so do
  // weights and lse.
  const Problem softcap = modified(numeric_shape, {{"score_mod", test::mod_example("softcap")}, {"aux", "cap:f32=2"}});
  const Problem option = modified(std::string(numeric_shape) + ",softcap=2", {}), plain = modified(numeric_shape, {});
  EXPECT_LE(largest_distance(softcap, option), 2e-5);
  EXPECT_GT(largest_distance(softcap, plain), 1e-2);
}

TEST_F(AttentionMods, SixteenBitArraysAndAllTypesOfNumbers) {
  const std::string text = R"(// aux: a:f16[heads]; b:bf16[heads]; c:i64[heads]
// aux: x:f32=0.5; y:i32=-2; z:i64=12884901888
__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {
  const float big = static_cast<float>(aux.z / 4294967296);  // 3
  return score * aux.x + aux.y * to_float(aux.a[h]) + big * to_float(aux.b[h]) + static_cast<float>(aux.c[h] * (k % 2));
}
)";
  with_executables({case_of(modified(numeric_shape, {{"score_mod", text}}))},
                   [&](const Case& c, const Executable& executable) {
                     const AttentionArraysOnHost arrays(c.problem, 5);
                     launch(executable, arrays);
                     const auto expected = [&](double score, Int, Int h, Int, Int k) {
                       return score * 0.5 - 2 * arrays.real("a", h) + 3 * arrays.real("b", h) +
                              static_cast<double>(arrays.integer("c", h) * (k % 2));
                     };
                     EXPECT_LE(test::largest_difference(c.problem, arrays, expected, nullptr), f32_tolerance);
                   });
}

// One source serves arrays of every dtype.
TEST_F(AttentionMods, ToFloatTakesEveryType) {
  const std::string body = R"(
__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {
  return to_float(score) + to_float(aux.a[h]) * to_float(q % 2);
}
)";
  std::vector<Case> cases;
  for (const char* dtype : {"f32", "f16", "bf16", "i32", "i64", "u8"})
    cases.push_back(case_of(modified(numeric_shape, {{"score_mod", body}, {"aux", "a:" + std::string(dtype) + "[heads]"}})));
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    const AttentionArraysOnHost arrays(c.problem, 5);
    const bool real = is_float(arrays["a"].info.dtype);
    launch(executable, arrays);
    const auto expected = [&](double score, Int, Int h, Int q, Int) {
      return score + static_cast<double>(q % 2) * (real ? arrays.real("a", h) : static_cast<double>(arrays.integer("a", h)));
    };
    EXPECT_LE(test::largest_difference(c.problem, arrays, expected, nullptr), f32_tolerance) << c.problem.text();
  });
}

/// Uses every constant in a way that shows its value.
constexpr const char* constants_text = R"(
constexpr float lowest = -FLT_MAX;
__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {
  if (k == 7) return -INFINITY;
  if (k == 8) return lowest;
  if (k == 9 && NAN == NAN) return 0.0f;
  if (k == INT_MAX || k == INT_MIN || static_cast<unsigned>(k) == UINT_MAX) return NAN;
  return score + FLT_MIN / FLT_EPSILON + static_cast<float>(M_PI - 2 * M_PI_2 + M_E + M_LN2 * M_LOG2E + M_SQRT2) * k * 0.01f;
}
)";

TEST_F(AttentionMods, ConstantsAreDefined) {
  with_executables(
      {case_of(modified(numeric_shape, {{"score_mod", constants_text}}))}, [&](const Case& c, const Executable& executable) {
        const AttentionArraysOnHost arrays(c.problem, 5);
        launch(executable, arrays);
        const auto expected = [](double score, Int, Int, Int, Int k) {
          return k == 7 || k == 8 ? -1e30 : score + (2.718281828459045 + 1 + 1.4142135623730951) * 0.01 * double(k);
        };
        EXPECT_LE(test::largest_difference(c.problem, arrays, expected, nullptr), f32_tolerance);
      });
}

TEST_F(AttentionMods, TrigonometryIsExactForLargeArguments) {
  with_executables({case_of(modified(numeric_shape, {{"score_mod", test::trigonometry_text}}))},
                   [&](const Case& c, const Executable& executable) {
                     const AttentionArraysOnHost arrays(c.problem, 5);
                     launch(executable, arrays);
                     EXPECT_LE(test::largest_difference(c.problem, arrays, test::trigonometry_score, nullptr),
                               f32_tolerance);
                   });
}

TEST_F(AttentionMods, FullyMaskedQueryGivesZeros) {
  const std::string text =
      "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) { return q % 3 != 0 && k % 2 == 0; }";
  with_executables({case_of(modified(numeric_shape, {{"mask_mod", text}}))},
                   [&](const Case& c, const Executable& executable) {
                     const AttentionArraysOnHost arrays(c.problem, 5);
                     launch(executable, arrays);
                     EXPECT_EQ(arrays.real("lse", 3), -INFINITY);
                     EXPECT_LE(test::largest_difference(c.problem, arrays, nullptr,
                                                        [](Int, Int, Int q, Int k) { return q % 3 != 0 && k % 2 == 0; }),
                               f32_tolerance);
                   });
}

// Macros end with the source that defines them: they change neither the template nor the other source.
TEST_F(AttentionMods, MacrosOfAUserFunctionAreItsOwn) {
  const std::string body =
      "__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) { return score * FACTOR; }";
  const std::string macros =
      "#define true false\n# define shape other\n#\\\ndefine static_assert(...)\n#define config\n#define params q\n"
      "#define tunesmith elsewhere\n#define b c\n#define TUNESMITH_SM 1\n#undef INFINITY\n#define FACTOR 2.0f\n";
  const std::string mask =
      "#ifdef FACTOR\n#error of the other source\n#endif\n#define FACTOR 3\n"
      "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) { return k % FACTOR > 0; }";
  const auto with = [&](const std::string& source) {
    return modified(numeric_shape, {{"score_mod", source}, {"mask_mod", mask}, {"causal", "top-left"}});
  };
  const Problem plain = with("#define FACTOR 2.0f\n" + body), many = with(macros + body);
  EXPECT_EQ(largest_distance(plain, many), 0);
  const auto nvrtc = open_compiler(DeviceInfo::Kind::cuda, EngineOptions::from_environment());
  for (const char* op : {"attention", "attention_backward"}) {
    const ParsedProblemPtr parsed = find_op(op).parse({op, many.fields});
    const DeviceInfo device = generic_device(parse_arch("sm_80"));
    EXPECT_NO_THROW((void)nvrtc->compile({"attention.cu", render(*parsed, parsed->default_config(device)), device.arch}));
  }
}

// One-shot calls look up plans by source: problems that differ only in the source have different plans.
TEST(AttentionModsEngine, OneShotCallsDistinguishSources) {
  Engine engine(test::host_engine_options());
  const std::string head =
      "// aux: table:f32[heads]\n__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {";
  const std::string mask =
      "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) { return aux.open[k] != 0; }";
  AttentionProblem problem;
  problem.heads = 2;
  problem.seq_q = 5;
  problem.head_dim = 8;
  problem.dtype = DType::f32;
  problem.mask_mod = mask;
  problem.aux = {{.name = "open", .dtype = DType::u8, .length = 5}};
  const std::vector<float> zeros(80, 0.0F);
  std::vector<float> v(80), o(80, -1.0F);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i / 16);  // the index of the key
  const float table[] = {1.0F, 3.0F};
  const std::uint8_t open[] = {0, 1, 0, 1, 0};
  AttentionArrays arrays{.q = zeros.data(), .k = zeros.data(), .v = v.data()};
  arrays.aux = {table, open};
  arrays.o = o.data();
  const auto expect = [&](const char* body, double head_0, double head_1) {
    problem.score_mod = head + body + "}";
    engine.run(problem, arrays);
    for (std::size_t i = 0; i < o.size(); ++i) EXPECT_NEAR(o[i], i / 8 % 2 == 0 ? head_0 : head_1, 1e-5) << body << i;
  };
  const auto weighed = [](double a, double b) { return (std::exp(a) + 3 * std::exp(b)) / (std::exp(a) + std::exp(b)); };
  expect("return aux.table[h] * k;", weighed(1, 3), weighed(3, 9));
  expect("return aux.table[h] * -k;", weighed(-1, -3), weighed(-3, -9));
  expect("return aux.table[h] * k;", weighed(1, 3), weighed(3, 9));
  arrays.aux[1] = nullptr;
  try {
    engine.run(problem, arrays);
    ADD_FAILURE() << "accepted a missing array";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("open is a null pointer"), std::string::npos) << error.what();
  }
  arrays.aux = {table, open, table};
  try {
    engine.run(problem, arrays);
    ADD_FAILURE() << "accepted an array that no function reads";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("aux[2] is given, but score_mod and mask_mod read 2 arrays"), std::string::npos)
        << error.what();
  }
}

TEST(AttentionModsEngine, OneShotCallsWriteAndReadTheBlockMask) {
  Engine engine(test::host_engine_options());
  AttentionProblem problem;
  problem.heads = 2;
  problem.seq_q = 70;
  problem.head_dim = 8;
  problem.dtype = DType::f32;
  problem.mask_mod =
      "// aux: open:u8[seq_kv]\n"
      "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) { return aux.open[k] != 0; }";
  const std::vector<float> zeros(70 * 16, 0.0F);
  std::vector<float> v(70 * 16), o(70 * 16, -1.0F);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i / 16);
  std::vector<std::uint8_t> open(70, 0);
  open[65] = open[67] = 1;
  ASSERT_EQ(block_mask_size(problem), 2 * 2);
  std::vector<std::int32_t> tiles(4, -1);
  AttentionArrays arrays{.q = zeros.data(), .k = zeros.data(), .v = v.data()};
  arrays.aux = {open.data()};
  arrays.o = o.data();
  const auto rejected = [&](const char* what) {
    try {
      engine.run(problem, arrays);
      ADD_FAILURE() << "accepted " << what;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  problem.block_mask = BlockMask::write;
  rejected("block_mask is a null pointer");
  arrays.block_mask = tiles.data();
  problem.block_mask = BlockMask::internal;
  rejected("block_mask is given, but the problem does not have it");
  for (const BlockMask way : {BlockMask::write, BlockMask::read}) {
    problem.block_mask = way;
    o.assign(o.size(), -1.0F);
    engine.run(problem, arrays);
    for (const float value : o) EXPECT_NEAR(value, 66, 1e-4);
    EXPECT_EQ(tiles, (std::vector<std::int32_t>{2, -4, 2, -4}));
  }
  problem.mask_mod.clear();
  rejected("aux[0] is given, but score_mod and mask_mod read 0 arrays");
  arrays.aux = {};
  rejected("block_mask is given, but the problem does not have it");
  arrays.block_mask = nullptr;
  rejected("block_mask is read, but there is no mask_mod");
}

TEST(AttentionModsNvrtc, EveryExampleCompiles) {
  const auto compiler = open_compiler(DeviceInfo::Kind::cuda, EngineOptions::from_environment());
  const Op& op = find_op("attention");
  for (const Example& example : examples())
    for (const char* arch : {"sm_80", "sm_90a"}) {
      const Problem problem = example.problem("heads=4,seq_q=4096,head_dim=64,dtype=bf16,causal=bottom-right");
      const Config config = op.parse(problem)->default_config(generic_device(parse_arch(arch)));
      SCOPED_TRACE(std::string(example.name) + " " + config.text());
      const Binary binary = compiler->compile({"attention.cu", render(*op.parse(problem), config), parse_arch(arch)});
      ASSERT_TRUE(binary.resources.contains("attention"));
      ASSERT_TRUE(binary.resources.contains("attention_modification"));
      EXPECT_EQ(binary.resources.contains("attention_block_mask"), problem.fields.contains("mask_mod"));
      EXPECT_LE(binary.resources.at("attention").spill_store_bytes, 64);
      EXPECT_EQ(why_not_worth_timing(*op.parse(problem), op.parse(problem)->configure(config), binary), "");
    }
}

/// Seconds of CPU time, which other processes do not change much.
double compile_seconds(const Compiler& compiler, const Problem& problem, const char* arch) {
  const ParsedProblemPtr parsed = find_op("attention").parse(problem);
  const Config config = parsed->default_config(generic_device(parse_arch(arch)));
  const std::clock_t begin = std::clock();
  const Binary binary = compiler.compile({"attention.cu", render(*parsed, config), parse_arch(arch)});
  EXPECT_TRUE(binary.resources.contains("attention"));
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

// CUDA's sinf, inlined for every score, took a kernel 7 times as long as none, all of these 14 times; 2.3 times are left.
TEST(AttentionModsNvrtc, TrigonometryCompilesFast) {
  const auto compiler = open_compiler(DeviceInfo::Kind::cuda, EngineOptions::from_environment());
  const std::string fields = "heads=4,seq_q=4096,head_dim=128,dtype=bf16";
  const Problem plain =
      modified(fields, {{"score_mod",
                         "__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) "
                         "{ return score * 1.5f; }"}});
  const Problem trigonometry =
      modified(fields, {{"score_mod",
                         "__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) "
                         "{ return sinf(score) + cosf(score) * tanf(score); }"}});
  EXPECT_LT(compile_seconds(*compiler, trigonometry, "sm_90a"), 5 * compile_seconds(*compiler, plain, "sm_90a"));
}

TEST(AttentionModsNvrtc, WhatTextsMayUseIsThere) {
  const auto compiler = open_compiler(DeviceInfo::Kind::cuda, EngineOptions::from_environment());
  const std::string to_float = R"(
__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) { return score + to_float(aux.a[h]) * to_float(k); }
)";
  const auto compile = [&](const std::string& text, const char* aux, const char* arch) {
    compile_seconds(*compiler, modified("heads=4,seq_q=4096,head_dim=64,dtype=bf16", {{"score_mod", text}, {"aux", aux}}),
                    arch);
  };
  compile(constants_text, "", "sm_90a");
  compile(test::trigonometry_text, "", "sm_75");
  compile(to_float, "a:f32[heads]", "sm_90a");
  compile(to_float, "a:bf16[heads]", "sm_75");
}

}  // namespace
}  // namespace tunesmith
