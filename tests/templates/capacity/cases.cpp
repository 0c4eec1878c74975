#include "tests/templates/capacity/cases.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

#include "templates/render.h"
#include "templates/row/capacity.h"
#include "tunesmith/error.h"

namespace tunesmith::test {
namespace {

struct Op {
  const char* name;
  const char* options;
  std::array<const char*, 3> strides;  ///< of arrays of rows
};

constexpr std::array ops{
    Op{"softmax", "", {"x_row_stride", "y_row_stride"}},
    Op{"cross_entropy", "reduction=none,gradient=separate,label_smoothing=0.1", {"logits_row_stride", "dlogits_row_stride"}},
    Op{"rms_norm", "weight=1", {"x_row_stride", "y_row_stride"}},
    Op{"softmax_backward", "", {"dy_row_stride", "y_row_stride", "dx_row_stride"}},
    Op{"log_softmax", "scale=0.5", {"x_row_stride", "y_row_stride"}},
    Op{"cross_entropy", "reduction=mean,argmax=1", {"logits_row_stride"}},
    Op{"log_softmax_backward", "", {"dy_row_stride", "y_row_stride", "dx_row_stride"}},
    Op{"cross_entropy_shard", "vocab_start=3,vocab_size=200000", {"logits_row_stride"}},
};

/// Contiguous rows of one dtype, or rows of bfloat16 padded to multiples of 16 elements.
std::string fields_of(const Op& op, std::int64_t cols, bool padded, const char* dtype = "f32") {
  std::string fields = "rows=19,cols=" + std::to_string(cols) + ",dtype=" + (padded ? "bf16" : dtype);
  for (const char* stride : op.strides)
    if (padded && stride != nullptr)
      fields.append(",").append(stride).append("=").append(std::to_string((cols + 15) / 16 * 16));
  return fields + (*op.options == 0 ? "" : ",") + op.options;
}

/// In the default configuration, or a variant's.
Case in_capacity(std::string_view op, const std::string& fields, const DeviceInfo& device, const std::string& config = {}) {
  const Problem problem = normalized(op, fields);
  const Config by_default = find_op(op).parse(problem)->capacity_config(device).value();
  if (config.empty()) return {problem, by_default};
  return case_of(op, fields, device, "capacity=" + text(*by_default.fields.find("capacity")) + "," + config);
}

}  // namespace

std::vector<Case> every_small_width(const DeviceInfo& device) {
  std::vector<Case> cases;
  std::map<std::int64_t, std::size_t> op_of_capacity;
  for (std::int64_t cols = 1; cols <= 96; ++cols) {
    const std::size_t number = op_of_capacity.emplace(row::capacity_of(cols), op_of_capacity.size()).first->second;
    for (const Op& op : {ops[0], ops[1 + number % (ops.size() - 1)]})
      for (const bool padded : {false, true}) cases.push_back(in_capacity(op.name, fields_of(op, cols, padded), device));
    const Op& op = ops[number % ops.size()];
    cases.push_back(in_capacity(op.name, fields_of(op, cols, false, "f16"), device));
  }
  return cases;
}

std::vector<Case> bucket_ends_in_every_variant(const DeviceInfo& device) {
  std::vector<Case> cases;
  for (const char* variant : {"variant=warp", "variant=block,threads=128,prefetch_blocks=1",
                              "variant=hybrid,threads=64,register_vectors=1,min_blocks=2",
                              "variant=cluster,threads=64,blocks_per_row=2,prefetch_blocks=3",
                              "variant=grid,threads=64,blocks_per_row=3,register_vectors=1,stagger_bytes_per_ns=20",
                              "variant=two_pass,threads=64,unroll=2", "variant=split,threads=64,unroll=1,blocks_per_row=3"})
    for (std::size_t number = 0; number < 4; ++number)
      for (const std::int64_t cols : {1025, 1026, 1028, 1032, 1100, 1281, 1503, 1505, 1536})
        for (const bool padded : {false, true}) {
          const Op& op = ops[number];
          if (op.name == std::string_view("rms_norm") && std::string_view(variant).starts_with("variant=split"))
            continue;  // row programs have no split kernels
          cases.push_back(in_capacity(op.name, fields_of(op, cols, padded), device, variant));
        }
  return cases;
}

std::vector<Case> few_long_rows(const DeviceInfo& device, bool in_buckets) {
  std::vector<Case> cases;
  const char* dtype = "f32";
  for (const auto& [rows, cols] : {std::pair{75, 66528}, {46, 70001}, {150, 99999}, {9, 130003}})
    for (const char* of_op : {"softmax", "softmax_backward", "cross_entropy", "layer_norm"}) {
      const std::string_view op = of_op;
      dtype = dtype == std::string_view("f32") ? "bf16" : "f32";
      const Problem problem = normalized(op, "rows=3,cols=" + std::to_string(cols) + ",dtype=" + dtype +
                                                 (op == "cross_entropy" ? ",reduction=none,gradient=in_place" : ""));
      const ParsedProblemPtr few = find_op(op).parse(problem)->with({{"rows", std::int64_t{rows}}});
      cases.push_back({problem, in_buckets ? few->capacity_config(device).value() : few->default_config(device)});
    }
  return cases;
}

std::vector<Case> rows_in_shared_memory(const DeviceInfo& device) {
  constexpr const char* program =
      "in x : f32[row, col]; in z : bf16[row, col]; sum s = x * z; out y : f32[row, col] = x - s * z";
  std::vector<Case> cases;
  const auto add = [&](const char* op, const char* fields, const std::string& config, std::initializer_list<int> widths) {
    for (const std::int64_t cols : widths) {
      Problem problem{op, parse_fields(fields, "fields")};
      problem.fields.set("rows", std::int64_t{3});
      problem.fields.set("cols", cols);
      if (problem.op == "row_program") problem.fields.set("program", std::string(program));
      problem = find_op(op).normalize(problem);
      const std::int64_t capacity = find_op(op).parse(problem)->capacity();
      cases.push_back(case_of(problem, device, "capacity=" + std::to_string(capacity) + "," + config));
    }
  };
  const auto add_sized = [&](const char* op, const char* fields, const std::string& config) {
    add(op, fields, "sized_by_row=1,threads=32,min_blocks=1," + config, {1025, 1031, 1279, 1473});
  };
  add_sized("softmax", "dtype=bf16", "variant=hybrid,register_vectors=1");
  add_sized("softmax", "dtype=f32,mask=keep", "variant=hybrid,register_vectors=0");
  add_sized("softmax_backward", "dtype=bf16", "variant=hybrid,register_vectors=1");
  add_sized("softmax_backward", "dtype=f32", "variant=cluster,blocks_per_row=2,register_vectors=1");
  add_sized("log_softmax_backward", "dtype=f32,valid_cols=1", "variant=cluster,blocks_per_row=2,register_vectors=2");
  add_sized("cross_entropy", "dtype=f32,reduction=none,gradient=in_place",
            "variant=cluster,blocks_per_row=2,register_vectors=1");
  add_sized("rms_norm", "dtype=bf16", "variant=hybrid,register_vectors=2");
  add_sized("softmax", "dtype=f32", "variant=grid,blocks_per_row=2,register_vectors=1");
  add_sized("softmax_backward", "dtype=f32", "variant=grid,blocks_per_row=2,register_vectors=1");
  add_sized("row_program", "", "variant=cluster,blocks_per_row=2,register_vectors=1");
  add("softmax_backward", "dtype=f32", "variant=warp,access=staged,threads=32,lanes=16,rounds=2", {197, 215, 255});
  return cases;
}

std::vector<SharedKernel> by_kernel(const std::vector<Case>& cases) {
  std::map<std::string, SharedKernel> groups;
  for (const Case& c : cases)
    groups[c.problem.op + " " + c.op().parse(c.problem)->capacity_class() + " " + c.config.text()].cases.push_back(c);
  std::vector<SharedKernel> kernels;
  for (auto& [key, kernel] : groups) {
    const auto source = [](const Case& c) { return KernelSource(*c.op().parse(c.problem), c.config).key(); };
    const std::string first = source(kernel.cases.front());
    for (const Case& c : kernel.cases) EXPECT_EQ(source(c), first) << key << ": " << c.text();
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace tunesmith::test
