#include "tests/templates/staged/cases.h"

#include <array>

#include "tunesmith/error.h"

namespace tunesmith::test {
namespace {

struct Op {
  const char *name, *options;
};

constexpr std::array ops{
    Op{"softmax", ""},
    Op{"softmax_backward", ""},
    Op{"cross_entropy", "reduction=none,gradient=in_place"},
    Op{"rms_norm", "weight=1"},
    Op{"cross_entropy", "reduction=none,gradient=separate,label_smoothing=0.1"},
    Op{"log_softmax", "scale=0.5"},
    Op{"cross_entropy", "reduction=mean,argmax=1"},
    Op{"log_softmax_backward", ""},
    Op{"layer_norm", ""},
    Op{"swiglu", ""},
    Op{"row_quantize", ""},
};
constexpr std::array dtypes{"f32", "bf16", "f16"};

std::string fields_of(const Op& op, std::int64_t rows, std::int64_t cols, const char* dtype) {
  return "rows=" + std::to_string(rows) + ",cols=" + std::to_string(cols) + ",dtype=" + dtype +
         (*op.options == 0 ? "" : ",") + op.options;
}

/// Lanes for about `each` accesses, and rows for the same lanes such that blocks start at vectors.
std::string geometry(int threads, std::int64_t cols, std::int64_t each, int rounds) {
  int lanes = 1;
  while (lanes < 32 && lanes * each < cols) lanes *= 2;
  while (threads / lanes * rounds % 16 != 0) rounds *= 2;
  return "variant=warp,access=staged,threads=" + std::to_string(threads) + ",lanes=" + std::to_string(lanes) +
         ",rounds=" + std::to_string(rounds);
}

void add_if_unaligned(std::vector<Case>& cases, const Case& plain, const DeviceInfo& device, const std::string& config) {
  try {
    cases.push_back(case_of(plain.problem, device, config));
  } catch (const Error&) {
    // Rows that are aligned to vectors are not staged.
  }
}

}  // namespace

std::vector<Case> staged_widths(const DeviceInfo& device) {
  constexpr std::array<std::int64_t, 5> rows{1, 19, 64, 131, 257}, each{8, 16, 30, 12, 5};
  constexpr std::array threads{128, 64, 32, 256};
  std::vector<Case> cases;
  std::size_t turn = 0;
  const auto add = [&](std::int64_t cols) {
    for (int i = 0; i < 2; ++i, ++turn) {
      const Op& op = ops[turn % ops.size()];
      const char* const dtype = dtypes[turn / 2 % dtypes.size()];
      const Case plain{normalized(op.name, fields_of(op, rows[turn % rows.size()], cols, dtype)), {}};
      add_if_unaligned(
          cases, plain, device,
          geometry(threads[turn / 3 % threads.size()], cols, each[turn % each.size()], 1 << static_cast<int>(turn % 3)));
    }
  };
  for (std::int64_t cols = 1; cols <= 70; ++cols) add(cols);
  for (const std::int64_t cols : {77, 101, 118, 127, 141, 206, 301, 450, 513, 701, 1002, 1101}) add(cols);
  return cases;
}

std::vector<Case> staged_options(const DeviceInfo& device) {
  const char* const config = "variant=warp,access=staged,threads=64,lanes=4,rounds=2,store=streaming";
  std::vector<Case> cases;
  const auto add = [&](const char* op, const std::string& fields) { cases.push_back(case_of(op, fields, device, config)); };
  for (const std::string_view op : softmax_ops)
    for (const char* more : {"causal=1", "valid_cols=1,safe=1", "mask=keep,safe=1,scale=2", "in_place=1"})
      for (const char* cols : {"37", "38"})
        add(std::string(op).c_str(), std::string("rows=37,dtype=bf16,cols=") + cols + "," + more);
  add("softmax", "rows=77,cols=37,mask=add,mask_dtype=bf16");
  for (const char* out : {"f32", "f16"}) {
    add("softmax", std::string("rows=77,cols=38,dtype=bf16,out_dtype=") + out);
    add("softmax_backward", std::string("rows=77,cols=37,dtype=bf16,out_dtype=") + out);
  }
  for (const char* more : {"in_place=1", "weight=1,weight_dtype=f32,rstd=1", "out_dtype=f32"})
    add("rms_norm", std::string("rows=77,cols=38,dtype=bf16,") + more);
  for (const char* more : {"gradient=in_place,softcap=20", "gradient=separate,label_smoothing=0.1,weight=1",
                           "nll=1,argmax=1", "gradient=in_place,dloss=row,z_loss=0.001", "gradient=separate,out_dtype=f32"})
    for (const char* cols : {"37", "38"})
      add("cross_entropy", std::string("rows=77,dtype=bf16,reduction=none,cols=") + cols + "," + more);
  add("cross_entropy_shard", "rows=77,cols=37,vocab_start=3,vocab_size=2000");
  for (const char* program : {"add_rms_norm", "softmax_dropout", "add_rms_norm_e4m3", "layer_norm_i8", "topk_gate", "geglu",
                              "cosine_similarity", "soft_cross_entropy", "merge_attention"})
    for (const char* cols : {"37", "38"})
      for (const char* dtype : {"f32", "bf16"})
        add(program, std::string("rows=77,cols=") + cols + ",dtype=" + dtype +
                         (std::string_view(program) == "softmax_dropout" ? ",numbers=seed=7" : ""));
  return cases;
}

std::vector<Case> staged_losses(const DeviceInfo& device) {
  struct Geometry {
    int threads, lanes, rounds;
  };
  // Fewer rounds than lanes, as many, and more.
  constexpr std::array geometries{Geometry{32, 1, 1},   Geometry{64, 1, 16}, Geometry{64, 2, 1},  Geometry{128, 2, 8},
                                  Geometry{64, 4, 4},   Geometry{64, 8, 2},  Geometry{64, 8, 32}, Geometry{64, 16, 4},
                                  Geometry{32, 16, 64}, Geometry{64, 32, 4}, Geometry{64, 32, 64}};
  constexpr std::array options{"target_dtype=i32,gradient=in_place,dloss=row",
                               "check_targets=1,argmax=1,mark_ignored=1",
                               "gradient=separate,z_loss=0.01,weight=1",
                               "reduction=mean,gradient=in_place,z_loss=0.01,weight=1,label_smoothing=0.1",
                               "target_dtype=i32,ignore_index=5,nll=1",
                               "reduction=mean,gradient=in_place,dloss=scalar,num_correct=1",
                               "reduction=sum,gradient=separate,softcap=30,scale=0.5,dloss=scalar",
                               "gradient=in_place,label_smoothing=0.2,argmax=1",
                               "reduction=mean,gradient=in_place,dloss=scalar,check_targets=1"};
  constexpr std::array rows{1, 77, 513, 128, 1031};
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const Geometry& g : geometries)
    for (const char* more : options) {
      const int cols = (turn % 3 == 2 ? 21 : 37) + (turn % 5 == 4 ? 1 : 0);
      const std::string fields = "rows=" + std::to_string(rows[turn % rows.size()]) + ",cols=" + std::to_string(cols) +
                                 ",dtype=" + dtypes[turn / 2 % dtypes.size()] + "," + more +
                                 (std::string_view(more).starts_with("reduction") ? "" : ",reduction=none");
      add_if_unaligned(cases, {normalized("cross_entropy", fields), {}}, device,
                       "variant=warp,access=staged,threads=" + std::to_string(g.threads) +
                           ",lanes=" + std::to_string(g.lanes) + ",rounds=" + std::to_string(g.rounds));
      ++turn;
    }
  for (const char* more : {"", ",label_smoothing=0.1,argmax=1"})
    for (const char* dtype : {"f32", "bf16"})
      cases.push_back(case_of("cross_entropy_shard",
                              std::string("rows=131,cols=37,vocab_start=20,vocab_size=80,dtype=") + dtype + more, device,
                              "variant=warp,access=staged,threads=64,lanes=4,rounds=2"));
  return cases;
}

std::vector<Case> staged_buckets(const DeviceInfo& device) {
  std::vector<Case> cases;
  const auto add = [&](const Op& op, std::int64_t cols, const char* dtype, std::int64_t each) {
    const Problem problem = normalized(op.name, fields_of(op, 131, cols, dtype));
    const std::int64_t capacity = find_op(op.name).parse(problem)->capacity();
    add_if_unaligned(cases, {problem, {}}, device,
                     geometry(64, capacity, each, 2) + ",capacity=" + std::to_string(capacity));
  };
  for (std::int64_t cols = 1; cols <= 64; ++cols)
    for (std::size_t i = 0; i < 3; ++i) add(ops[i], cols, dtypes[i], 16);
  for (const std::int64_t cols : {65, 66, 80, 94, 95, 193, 255, 500})
    for (const Op& op : ops) add(op, cols, "bf16", 24);
  return cases;
}

}  // namespace tunesmith::test
