// Users' texts through the structs of the C API: the problem, the source and the numbers are those of C++. On the host
// executor. api/examples/attention_mods.c is the same compiled as C.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "templates/op.h"
#include "tests/api/c/host_engine.h"
#include "tests/templates/attention/mods.h"
#include "tunesmith/c_api.h"
#include "tunesmith/engine.h"

namespace tunesmith {
namespace {

using test::AttentionArraysOnHost;

constexpr const char* mask =
    "// aux: open:u8[seq_kv]\n"
    "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) { return aux.open[k] != 0; }";

tunesmith_attention_aux aux_named(const char* name, int dtype) {
  tunesmith_attention_aux aux{};
  aux.struct_size = sizeof aux;
  aux.name = name;
  aux.dtype = dtype;
  return aux;
}

class AttentionModsC : public testing::Test {
 protected:
  AttentionModsC() {
    problem_.struct_size = sizeof problem_;
    arrays_.struct_size = sizeof arrays_;
  }
  ~AttentionModsC() override { tunesmith_engine_destroy(engine_); }

  void set_sizes(int64_t batch, int64_t heads, int64_t seq_q, int64_t seq_kv, int64_t head_dim) {
    problem_.batch = batch;
    problem_.heads = heads;
    problem_.seq_q = seq_q;
    problem_.seq_kv = seq_kv;
    problem_.head_dim = head_dim;
  }
  void set_aux(std::vector<tunesmith_attention_aux> aux) {
    aux_ = std::move(aux);
    problem_.aux = aux_.data();
    problem_.aux_count = aux_.size();
  }

  struct Prepared {
    std::string problem, config, source;
    bool operator==(const Prepared&) const = default;
  };
  Prepared prepare() const {
    tunesmith_problem* fields = nullptr;
    tunesmith_plan* plan = nullptr;
    EXPECT_EQ(tunesmith_problem_from_attention(&problem_, &fields), TUNESMITH_OK) << tunesmith_last_error();
    EXPECT_EQ(tunesmith_prepare(engine_, fields, nullptr, TUNESMITH_MODE_OFF, &plan), TUNESMITH_OK)
        << tunesmith_last_error() << tunesmith_last_error_log();
    Prepared prepared{tunesmith_plan_problem(plan), tunesmith_plan_config(plan), tunesmith_plan_source(plan)};
    tunesmith_plan_destroy(plan);
    tunesmith_problem_destroy(fields);
    return prepared;
  }

  void expect_refused(const std::string& words) const {
    EXPECT_EQ(tunesmith_attention(engine_, &arrays_, &problem_, nullptr), TUNESMITH_INVALID_ARGUMENT) << words;
    EXPECT_NE(std::string(tunesmith_last_error()).find(words), std::string::npos) << tunesmith_last_error();
  }

  tunesmith_engine* engine_ = test::host_engine();
  tunesmith_attention_problem problem_{};
  tunesmith_attention_arrays arrays_{};
  std::vector<tunesmith_attention_aux> aux_;
};

Engine host_engine() {
  EngineOptions options;
  options.device = "host";
  options.cache_file.clear();
  options.mode = Mode::off;
  return Engine(options);
}

TEST_F(AttentionModsC, StructsMakeTheProblemThatCxxMakes) {
  const std::string softcap = test::mod_example("softcap"), window = test::mod_example("dilated_window");
  AttentionProblem same{.batch = 2, .heads = 4, .kv_heads = 2, .seq_q = 30, .seq_kv = 40, .head_dim = 16};
  same.dtype = DType::f32;
  same.causal = Causal::top_left;
  same.alibi = same.sinks = true;
  same.score_mod = softcap;
  same.mask_mod = window;
  same.mask_tiles = MaskTiles::write;
  same.aux = {{.name = "cap", .dtype = DType::f32, .value = 2.5},
              {.name = "window", .dtype = DType::i32, .value = 7},
              {.name = "last", .dtype = DType::i64, .value = std::string("2*seq_kv-1")},
              {.name = "zero", .dtype = DType::i64},
              {.name = "flags", .dtype = DType::u8, .length = 3}};

  set_sizes(2, 4, 30, 40, 16);
  problem_.kv_heads = 2;
  problem_.causal = TUNESMITH_CAUSAL_TOP_LEFT;
  problem_.alibi = problem_.sinks = 1;
  problem_.score_mod = softcap.c_str();
  problem_.mask_mod = window.c_str();
  problem_.mask_tiles = TUNESMITH_MASK_TILES_WRITE;
  set_aux({aux_named("cap", TUNESMITH_F32), aux_named("window", TUNESMITH_I32), aux_named("last", TUNESMITH_I64),
           aux_named("zero", TUNESMITH_I64), aux_named("flags", TUNESMITH_U8)});
  aux_[0].real = 2.5;
  aux_[1].integer = 7;
  aux_[2].word = "2*seq_kv-1";
  aux_[4].has_length = 1;
  aux_[4].length = 3;
  Engine engine = host_engine();
  const auto expect_same = [&] {
    const Plan plan = engine.prepare(same);
    EXPECT_EQ(prepare(), (Prepared{plan.problem().text(), plan.config().text(), plan.source()}));
  };
  expect_same();
  const Op& op = find_op("attention");
  const std::string text = prepare().problem, name = "attention ";
  ASSERT_TRUE(text.starts_with(name)) << text;
  const auto key = [&](const Problem& problem) { return op.parse(problem)->key().semantics; };
  EXPECT_EQ(key({"attention", parse_fields(text.substr(name.size()), "problem")}), key(to_problem(same)));
  tunesmith_problem* fields = nullptr;
  ASSERT_EQ(tunesmith_problem_from_attention(&problem_, &fields), TUNESMITH_OK);
  int64_t elements = 0;
  EXPECT_EQ(tunesmith_problem_elements(fields, "mask_tiles", &elements), TUNESMITH_OK) << tunesmith_last_error();
  EXPECT_EQ(elements, mask_tiles_size(same));
  EXPECT_EQ(tunesmith_problem_elements(fields, "flags", &elements), TUNESMITH_OK) << tunesmith_last_error();
  EXPECT_EQ(elements, 3);
  tunesmith_problem_destroy(fields);

  same.varlen = true;
  same.total_q = 50;
  same.total_kv = 60;
  same.mask_tiles = MaskTiles::read;
  same.alibi = false;
  problem_.varlen = 1;
  problem_.total_q = 50;
  problem_.total_kv = 60;
  problem_.mask_tiles = TUNESMITH_MASK_TILES_READ;
  problem_.alibi = 0;
  expect_same();
}

// ALiBi as a text, against float64.
TEST_F(AttentionModsC, OneCallComputesWhatTheTextSays) {
  const std::string text = test::mod_example("alibi");
  const Problem problem = test::modified("batch=2,heads=4,seq_q=37,seq_kv=53,head_dim=16,dtype=f32", {{"score_mod", text}});
  const AttentionArraysOnHost on_host(problem, 5);
  set_sizes(2, 4, 37, 53, 16);
  problem_.score_mod = text.c_str();
  arrays_.q = on_host["q"].data;
  arrays_.k = on_host["k"].data;
  arrays_.v = on_host["v"].data;
  arrays_.aux[0] = on_host["slopes"].data;
  arrays_.o = on_host["o"].data;
  arrays_.lse = reinterpret_cast<float*>(on_host["lse"].data);
  ASSERT_EQ(tunesmith_attention(engine_, &arrays_, &problem_, nullptr), TUNESMITH_OK)
      << tunesmith_last_error() << tunesmith_last_error_log();
  const auto alibi = [&](std::int64_t shift) {
    return [&on_host, shift](double score, std::int64_t, std::int64_t h, std::int64_t q, std::int64_t k) {
      return score - on_host.real("slopes", h) * static_cast<double>(std::abs(q + shift - k));
    };
  };
  EXPECT_LT(test::largest_difference(problem, on_host, alibi(53 - 37), {}), 1e-5);
  // A number that the text declares is another where the problem says so.
  set_aux({aux_named("offset", TUNESMITH_I32)});
  aux_[0].integer = -3;
  ASSERT_EQ(tunesmith_attention(engine_, &arrays_, &problem_, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  EXPECT_LT(test::largest_difference(problem, on_host, alibi(-3), {}), 1e-5);
}

TEST_F(AttentionModsC, TilesAreWrittenAndRead) {
  constexpr std::size_t seq = 70, width = 8;
  std::vector<float> zeros(seq * width), v(seq * width), o(seq * width);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i / width);  // the key's number
  std::vector<std::uint8_t> open(seq, 0);
  open[65] = open[67] = 1;
  std::vector<std::int32_t> tiles(4, -1);
  set_sizes(1, 1, seq, 0, width);
  problem_.mask_mod = mask;
  arrays_.q = arrays_.k = zeros.data();
  arrays_.v = v.data();
  arrays_.aux[0] = open.data();
  arrays_.mask_tiles = tiles.data();
  arrays_.o = o.data();
  expect_refused("mask_tiles is given, but the problem does not have it");
  for (const int way : {TUNESMITH_MASK_TILES_WRITE, TUNESMITH_MASK_TILES_READ}) {
    problem_.mask_tiles = way;
    o.assign(o.size(), -1);
    ASSERT_EQ(tunesmith_attention(engine_, &arrays_, &problem_, nullptr), TUNESMITH_OK) << tunesmith_last_error();
    EXPECT_EQ(tiles, (std::vector<std::int32_t>{2, ~3, 2, ~3}));
    for (const float value : o) EXPECT_NEAR(value, 66, 1e-4);
  }
  arrays_.mask_tiles = nullptr;
  expect_refused("mask_tiles is a null pointer");
}

// A program built with the header that had no texts.
TEST_F(AttentionModsC, FieldsThatTheCallersHeaderDoesNotHaveAreNotRead) {
  set_sizes(1, 1, 4, 4, 8);
  const Prepared without = prepare();
  problem_.score_mod = "no text";
  problem_.alibi = 1;
  problem_.struct_size = offsetof(tunesmith_attention_problem, score_mod);
  EXPECT_EQ(prepare(), without);
  const std::vector<float> zeros(32);
  std::vector<float> o(32, -1);
  arrays_.q = arrays_.k = arrays_.v = zeros.data();
  arrays_.o = o.data();
  arrays_.mask_tiles = reinterpret_cast<std::int32_t*>(o.data());
  arrays_.struct_size = offsetof(tunesmith_attention_arrays, aux);
  ASSERT_EQ(tunesmith_attention(engine_, &arrays_, &problem_, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  EXPECT_EQ(o, zeros);
}

// One built with a header whose aux has a field more.
TEST_F(AttentionModsC, AuxOfANewerHeaderIsFoundWhereItStands) {
  struct Newer {
    tunesmith_attention_aux known;
    const char* unknown;
  };
  Newer newer[2]{{aux_named("window", TUNESMITH_I32), nullptr}, {aux_named("dilation", TUNESMITH_I32), nullptr}};
  const std::string window = test::mod_example("dilated_window");
  set_sizes(1, 1, 30, 30, 8);
  problem_.mask_mod = window.c_str();
  set_aux({newer[0].known, newer[1].known});
  aux_[0].integer = 5;
  aux_[1].integer = 3;
  const Prepared expected = prepare();
  EXPECT_NE(expected.problem.find("window:i32=5;dilation:i32=3"), std::string::npos) << expected.problem;
  for (std::size_t i = 0; i < 2; ++i) {
    newer[i].known = aux_[i];
    newer[i].known.struct_size = sizeof(Newer);
  }
  problem_.aux = &newer[0].known;
  EXPECT_EQ(prepare(), expected);
  newer[1].unknown = "x";
  expect_refused("problem.aux[1].struct_size is " + std::to_string(sizeof(Newer)) + ", but this library");
}

TEST_F(AttentionModsC, WhatIsWrongIsNamed) {
  const std::vector<float> zeros(32);
  std::vector<float> o(32, -1);
  set_sizes(1, 1, 4, 4, 8);
  arrays_.q = arrays_.k = arrays_.v = zeros.data();
  arrays_.o = o.data();
  problem_.mask_tiles = 3;
  expect_refused("mask_tiles is 3; allowed: TUNESMITH_MASK_TILES_INTERNAL (0)");
  problem_.mask_tiles = TUNESMITH_MASK_TILES_INTERNAL;
  problem_.mask_mod = "// nothing";
  expect_refused("mask_mod holds no function mask_mod");
  problem_.mask_mod = mask;
  expect_refused("'open' is a null pointer");
  arrays_.aux[0] = arrays_.aux[1] = zeros.data();
  expect_refused("aux[1] is given, but score_mod and mask_mod read 1 array;");
  arrays_.aux[1] = nullptr;
  problem_.aux_count = 1;
  expect_refused("problem.aux is NULL");
  set_aux({aux_named("open", TUNESMITH_U8), aux_named(nullptr, TUNESMITH_U8)});
  expect_refused("problem.aux[1].name is NULL");
  aux_[1] = aux_named("more", 6);
  expect_refused("problem.aux[1].dtype is 6; allowed: TUNESMITH_F32 (0) to TUNESMITH_I64 (5)");
  aux_[1].struct_size = 0;
  expect_refused("problem.aux[1].struct_size is 0; expected sizeof(tunesmith_attention_aux)");
  aux_[1] = aux_named("more", TUNESMITH_I32);
  aux_[1].integer = 1;
  aux_[1].real = 0.5;
  expect_refused("problem.aux[1] has more than one of integer, real and word; expected one value for more");
  aux_[1].integer = 0;
  expect_refused("aux declares 'open:u8=0'; a number cannot be u8");
  aux_[0].has_length = 1;
  aux_[0].length = 4;
  expect_refused("aux declares more:i32=0.5, and '0.5' is no value");
  problem_.aux_count = 9;
  expect_refused("problem.aux_count is 9; allowed: up to 8");
  problem_.aux_count = 1;
  EXPECT_EQ(tunesmith_attention(engine_, &arrays_, &problem_, nullptr), TUNESMITH_OK) << tunesmith_last_error();

  problem_.mask_mod =
      "// aux: open:u8[seq_kv]\n__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) {\n  return "
      "nowhere;\n}";
  EXPECT_EQ(tunesmith_attention(engine_, &arrays_, &problem_, nullptr), TUNESMITH_COMPILE_FAILED);
  EXPECT_NE(std::string(tunesmith_last_error()).find("mask_mod.cu:3:"), std::string::npos) << tunesmith_last_error();
  tunesmith_problem* fields = nullptr;
  EXPECT_EQ(tunesmith_problem_from_attention(nullptr, &fields), TUNESMITH_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tunesmith_last_error()).find("problem is NULL"), std::string::npos) << tunesmith_last_error();
  EXPECT_EQ(tunesmith_problem_from_attention(&problem_, nullptr), TUNESMITH_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tunesmith_last_error()).find("fields is NULL"), std::string::npos) << tunesmith_last_error();
  problem_.alibi = 1;
  expect_refused("alibi_slopes is a null pointer; expected device memory");
  EXPECT_EQ(fields, nullptr);
}

}  // namespace
}  // namespace tunesmith
