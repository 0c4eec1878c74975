// Numerics of users' texts on the host executor: every example that ships against float64 computed here, the built-in
// options that two of them repeat, the judge that asks the text itself, and NVRTC's word on the sources.

#include "tests/templates/attention/mods.h"

#include <cmath>

#include "api/engine/parts.h"
#include "templates/half.h"
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

constexpr const char* shape = "batch=2,heads=4,kv_heads=2,seq_q=37,seq_kv=53,head_dim=16,dtype=f32";
constexpr double f32_tolerance = 1e-5;  // weights of 53 keys, values of a few units

class AttentionMods : public test::HostKernels {
 protected:
  Case case_of(const Problem& problem, const char* config = "variant=simt,tile_q=16,tile_kv=32,threads=64") {
    return {problem, find_op("attention").parse(problem)->complete_config(device_.info(), {parse_fields(config, "config")})};
  }

  void launch(const Executable& executable, const AttentionArraysOnHost& arrays) {
    std::vector<void*> addresses;
    for (const HostArray& array : arrays.all()) addresses.push_back(array.data);
    executable.enqueue(addresses, nullptr);
  }

  /// The outputs of both problems on the same inputs, side by side.
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
  const char* aux;  ///< beside what the text declares
  std::function<test::ScoreMod(const AttentionArraysOnHost&)> score_mod;
  std::function<test::MaskMod(const AttentionArraysOnHost&)> mask_mod;

  Problem problem(const std::string& of = shape) const {
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

TEST_F(AttentionMods, EveryExampleIsWhatItSays) {
  const std::vector<Example> all = examples();
  std::vector<Case> cases;
  for (const Example& example : all) cases.push_back(case_of(example.problem()));
  std::size_t next = 0;
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    const Example& example = all[next++];
    SCOPED_TRACE(example.name);
    const AttentionArraysOnHost arrays(c.problem, 5);
    if (example.name == std::string("prefix_lm"))  // beyond what causal attention sees
      for (Int b = 0; b < 2; ++b) write_integer(DType::i32, arrays["prefix"].data, b, b == 0 ? 41 : 23);
    launch(executable, arrays);
    EXPECT_LE(test::largest_difference(c.problem, arrays, example.score_mod ? example.score_mod(arrays) : nullptr,
                                       example.mask_mod ? example.mask_mod(arrays) : nullptr),
              f32_tolerance);
    EXPECT_GT(test::largest_difference(c.problem, arrays, nullptr, nullptr), 100 * f32_tolerance) << "it changes nothing";

    // The judge knows nothing of the example: it asks the text.
    const CheckResult check = c.op().parse(c.problem)->judge(arrays.all(), 1000, evaluate_on(device_, executable.module()));
    EXPECT_TRUE(check.passed) << check.first_failure;
    EXPECT_EQ(check.checked_rows, 2 * 4 * 37);
    EXPECT_NE(check.note.find("score_mod"), std::string::npos);
    EXPECT_LT(check.allowed_error, 3e-4);
    EXPECT_THROW((void)c.op().parse(c.problem)->check(arrays.all(), 1000), Error);
    reinterpret_cast<float*>(arrays["o"].data)[1000] += 1e-3f;
    EXPECT_FALSE(c.op().parse(c.problem)->judge(arrays.all(), 1000, evaluate_on(device_, executable.module())).passed);
  });
}

// Poisoned outputs, awkward inputs, half precision, packed sequences, other options beside: what a tuner looks at.
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

TEST_F(AttentionMods, TheJudgeSeesATextThatIsAskedForTheWrongKey) {
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

TEST_F(AttentionMods, ATextOfABuiltInOptionIsThatOption) {
  // A cap of 2 changes most scores. Its score is within cap * 2^-20 of the option's, and weights and lse follow it.
  const Problem softcap = modified(shape, {{"score_mod", test::mod_example("softcap")}, {"aux", "cap:f32=2"}});
  const Problem option = modified(std::string(shape) + ",softcap=2", {}), plain = modified(shape, {});
  EXPECT_LE(largest_distance(softcap, option), 2e-5);
  EXPECT_GT(largest_distance(softcap, plain), 1e-2);
}

TEST_F(AttentionMods, SixteenBitArraysAndEveryTypeOfNumber) {
  const std::string text = R"(// aux: a:f16[heads]; b:bf16[heads]; c:i64[heads]
// aux: x:f32=0.5; y:i32=-2; z:i64=12884901888
__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {
  const float big = static_cast<float>(aux.z / 4294967296);  // 3
  return score * aux.x + aux.y * to_float(aux.a[h]) + big * to_float(aux.b[h]) + static_cast<float>(aux.c[h] * (k % 2));
}
)";
  with_executables({case_of(modified(shape, {{"score_mod", text}}))}, [&](const Case& c, const Executable& executable) {
    const AttentionArraysOnHost arrays(c.problem, 5);
    launch(executable, arrays);
    const auto expected = [&](double score, Int, Int h, Int, Int k) {
      return score * 0.5 - 2 * arrays.real("a", h) + 3 * arrays.real("b", h) +
             static_cast<double>(arrays.integer("c", h) * (k % 2));
    };
    EXPECT_LE(test::largest_difference(c.problem, arrays, expected, nullptr), f32_tolerance);
  });
}

TEST_F(AttentionMods, AQueryOfWhichEveryKeyIsHiddenGetsZeros) {
  const std::string text =
      "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) { return q % 3 != 0 && k % 2 == 0; }";
  with_executables({case_of(modified(shape, {{"mask_mod", text}}))}, [&](const Case& c, const Executable& executable) {
    const AttentionArraysOnHost arrays(c.problem, 5);
    launch(executable, arrays);
    EXPECT_EQ(arrays.real("lse", 3), -INFINITY);
    EXPECT_LE(test::largest_difference(c.problem, arrays, nullptr,
                                       [](Int, Int, Int q, Int k) { return q % 3 != 0 && k % 2 == 0; }),
              f32_tolerance);
  });
}

// One-shot calls look a text up by itself: two that differ in nothing else are two.
TEST(AttentionModsEngine, OneShotCallsTellTextsApart) {
  EngineOptions options;
  options.device = "host";
  options.cache_file.clear();
  options.mode = Mode::off;
  Engine engine(options);
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
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i / 16);  // the key's number
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
    ADD_FAILURE() << "a missing array is taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'open' is a null pointer"), std::string::npos) << error.what();
  }
  arrays.aux = {table, open, table};
  try {
    engine.run(problem, arrays);
    ADD_FAILURE() << "an array that no text reads is taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("aux[2] is given, but score_mod and mask_mod read 2 arrays"), std::string::npos)
        << error.what();
  }
}

TEST(AttentionModsEngine, OneShotCallsWriteAndReadTiles) {
  EngineOptions options;
  options.device = "host";
  options.cache_file.clear();
  options.mode = Mode::off;
  Engine engine(options);
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
  ASSERT_EQ(mask_tiles_size(problem), 2 * 2);
  std::vector<std::int32_t> tiles(4, -1);
  AttentionArrays arrays{.q = zeros.data(), .k = zeros.data(), .v = v.data()};
  arrays.aux = {open.data()};
  arrays.o = o.data();
  const auto refused = [&](const char* what) {
    try {
      engine.run(problem, arrays);
      ADD_FAILURE() << what << " is taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  problem.mask_tiles = MaskTiles::write;
  refused("mask_tiles is a null pointer");
  arrays.mask_tiles = tiles.data();
  problem.mask_tiles = MaskTiles::internal;
  refused("mask_tiles is given, but the problem does not have it");
  for (const MaskTiles way : {MaskTiles::write, MaskTiles::read}) {
    problem.mask_tiles = way;
    o.assign(o.size(), -1.0F);
    engine.run(problem, arrays);
    for (const float value : o) EXPECT_NEAR(value, 66, 1e-4);
    EXPECT_EQ(tiles, (std::vector<std::int32_t>{2, -4, 2, -4}));
  }
  problem.mask_mod.clear();
  refused("mask_tiles is read without mask_mod");
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
      EXPECT_EQ(binary.resources.contains("attention_mask_tiles"), problem.fields.contains("mask_mod"));
      EXPECT_LE(binary.resources.at("attention").spill_store_bytes, 64);
      EXPECT_EQ(why_not_worth_timing(*op.parse(problem), config, binary), "");
    }
}

}  // namespace
}  // namespace tunesmith
