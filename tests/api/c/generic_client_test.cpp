// A C program that knows names only runs every operation; results are compared with the float64 references. Runs on the host
// executor.

#include "tests/api/c/generic_client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "templates/op.h"
#include "tests/api/c/host_engine.h"

namespace tunesmith {
namespace {

struct Case {
  const char* op;
  const char* fields;
};
constexpr Case cases[] = {
    {"softmax", "rows=5,cols=70,dtype=bf16"},
    {"softmax", "rows=0,cols=70"},
    {"softmax", "rows=3,cols=0"},
    {"log_softmax_backward", "rows=3,cols=0,inner=4"},
    {"softmax", "rows=3,cols=40,dtype=f32,mask=keep,valid_cols=1,safe=1,scale=0.5"},
    {"softmax", "rows=3,cols=40,dtype=f16,in_place=1"},
    {"log_softmax", "rows=4,cols=33,dtype=f32,x_row_stride=0"},
    {"softmax", "rows=2,cols=21,inner=12,dtype=bf16"},
    {"softmax_backward", "rows=4,cols=33,dtype=f32"},
    {"log_softmax_backward", "rows=2,cols=7,inner=5,in_place=1"},
    {"log_softmax_backward", "rows=4,cols=33,dtype=f32,in_place=1"},
    {"cross_entropy", "rows=6,cols=50,dtype=f32,gradient=separate,weight=1,nll=1,argmax=1,num_correct=1,check_targets=1"},
    {"cross_entropy", "rows=6,cols=50,dtype=f32,gradient=in_place,reduction=none,z_loss=0.125"},
    {"cross_entropy",
     "rows=2,cols=21,inner=12,dtype=bf16,gradient=separate,weight=1,nll=1,argmax=1,mark_ignored=1,check_targets=1"},
    {"cross_entropy", "rows=6,cols=50,dtype=f64,gradient=separate,weight=1,nll=1,argmax=1,label_smoothing=0.1,dloss=scalar"},
    {"cross_entropy_backward", "rows=6,cols=50,dtype=f32,nll=1"},
    {"cross_entropy_backward", "rows=2,cols=21,inner=4,dtype=f64,nll=1,dlse=1"},
    {"cross_entropy_backward", "rows=3,cols=21,inner=5,in_place=1,dlse=1"},
    {"cross_entropy_backward", "rows=3,cols=0,weight=1,nll=1"},
    {"cross_entropy_shard", "rows=4,cols=30,dtype=f32,vocab_size=60"},
    {"cross_entropy_combine", "rows=4,shards=2,vocab_size=60"},
    {"cross_entropy_shard", "rows=4,cols=30,dtype=f64,vocab_size=60"},
    {"cross_entropy_combine", "rows=4,shards=2,dtype=f64,vocab_size=60"},
    {"attention",
     "batch=2,heads=4,kv_heads=2,seq_q=20,seq_kv=33,head_dim=16,dtype=f32,causal=bottom-right,alibi=1,sinks=1,"
     "dropout=0.2,rng_state=1"},
    {"attention", "batch=2,heads=2,seq_q=20,head_dim=16,dtype=f16,varlen=1,total_q=30,total_kv=31"},
    {"attention_backward",
     "heads=4,kv_heads=2,seq_q=20,seq_kv=33,head_dim=16,dtype=f32,alibi=1,dslopes=1,sinks=1,dsinks=1,dlse=1"},
    {"rms_norm", "rows=5,cols=70,dtype=bf16,weight=1,weight_dtype=f32,rstd=1"},
    {"rms_norm", "rows=5,cols=0,weight=1"},
    {"layer_norm_gradient", "rows=3,cols=0"},
    {"layer_norm_gradient", "rows=3,cols=0,inner=4"},
    {"row_program",
     "rows=5,cols=70,dtype=bf16,program=in x : float[row%2C col]%0Asum s = x%0Aout y : float[row%2C col] = x - s / cols%0A"},
    {"row_program",
     "rows=5,cols=7,inner=6,dtype=f16,program=in x : float[row%2C col]%0Asum s = x%0Acolsum y : f32[col] = x - s / cols%0A"},
    {"soft_cross_entropy", "rows=5,cols=70,dtype=bf16,numbers=label_smoothing=0.125"},
    {"soft_cross_entropy_gradient", "rows=3,cols=21,inner=5"},
    {"row_program",
     "rows=5,cols=70,program=in x : f64[row%2C col]%0Ain w : bf16[col]%0Asum s = x * w%0Aout y : f64[row%2C col] = x - s / "
     "cols%0A"},
    {"kv_append",
     "tokens=20,heads=4,kv_heads=2,head_dim=64,dtype=bf16,cache_dtype=e4m3,scales=head,page_size=4,pages=9,rope=neox,"
     "max_positions=30,qk_norm=1"},
    {"kv_append", "tokens=0,kv_heads=2,head_dim=64"},
    {"merge_attention_parts", "parts=3,batch=2,heads=4,seq_q=5,head_dim=64,dtype=bf16,out_dtype=f32"},
    {"copy", "elements=1000,dtype=f32,inputs=2"},
};

/// The problem as the library's reference sees it.
struct Reference {
  ParsedProblemPtr problem;
  int checks = 0;

  std::vector<HostArray> arrays(void* const* memory) const {
    std::vector<HostArray> result;
    for (const ArrayInfo& info : problem->arrays()) result.push_back({info, static_cast<std::byte*>(memory[result.size()])});
    return result;
  }
};

void fill(void* context, const tunesmith_array*, void* const* memory, std::size_t) {
  const Reference& reference = *static_cast<const Reference*>(context);
  reference.problem->fill_inputs(7, InputKind::random, reference.arrays(memory));
}

void check(void* context, const tunesmith_array* arrays, void* const* memory, std::size_t count) {
  Reference& reference = *static_cast<Reference*>(context);
  const std::vector<HostArray> expected = reference.arrays(memory);
  ASSERT_EQ(count, expected.size());
  for (std::size_t i = 0; i < count; ++i) {
    const ArrayInfo& info = expected[i].info;
    EXPECT_EQ(arrays[i].name, info.name);
    EXPECT_EQ(static_cast<int>(arrays[i].dtype), static_cast<int>(info.dtype));
    EXPECT_EQ(std::vector(arrays[i].shape, arrays[i].shape + arrays[i].rank), info.shape);
    EXPECT_EQ(std::vector(arrays[i].strides, arrays[i].strides + arrays[i].rank), info.strides);
    EXPECT_EQ(arrays[i].role != TUNESMITH_INPUT, info.output);
    EXPECT_EQ(arrays[i].role != TUNESMITH_OUTPUT, info.input);
  }
  const CheckResult result = reference.problem->check(expected, 1000);
  EXPECT_TRUE(result.passed) << reference.problem->problem().text() << ": " << result.first_failure;
  ++reference.checks;
}

TEST(GenericClient, RunsEveryOperationOfTheRegistry) {
  tunesmith_engine* const engine = test::host_engine();
  std::set<std::string_view> covered{"linear_cross_entropy"};  // below
  for (const Case& each : cases) {
    SCOPED_TRACE(std::string(each.op) + " " + each.fields);
    covered.insert(each.op);
    Reference reference{find_op(each.op).parse({each.op, parse_fields(each.fields, "fields")})};
    EXPECT_EQ(generic_run(engine, each.op, each.fields, fill, check, &reference), TUNESMITH_OK)
        << tunesmith_last_error() << tunesmith_last_error_log();
    EXPECT_EQ(reference.checks, 2);
  }
  std::set<std::string_view> all{"layer_norm_gradient", "soft_cross_entropy",
                                 "soft_cross_entropy_gradient"};  // shipped row programs
  for (std::size_t i = 0; tunesmith_op(i) != nullptr; ++i) all.insert(tunesmith_op(i));
  EXPECT_EQ(covered, all);
  tunesmith_engine_destroy(engine);
}

/// All logits are 0, so that each class has the same probability.
TEST(GenericClient, RunsLinearCrossEntropy) {
  tunesmith_engine* const engine = test::host_engine();
  const generic_visit zero = [](void*, const tunesmith_array* arrays, void* const* memory, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      if (arrays[i].role == TUNESMITH_INPUT)
        std::fill_n(static_cast<char*>(memory[i]), static_cast<std::size_t>(arrays[i].bytes), '\0');
  };
  const generic_visit expect_log = [](void* checks, const tunesmith_array* arrays, void* const* memory, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view name = arrays[i].name;
      if (name != "loss" && name != "dhidden" && name != "dweight") continue;
      EXPECT_NEAR(*static_cast<const float*>(memory[i]), name == "loss" ? std::log(24.0) : 0, 1e-5) << name;
    }
    ++*static_cast<int*>(checks);
  };
  int checks = 0;
  EXPECT_EQ(
      generic_run(engine, "linear_cross_entropy",
                  "tokens=7,hidden_size=8,vocab_size=24,dtype=f32,dhidden=1,dweight=1,caller_workspace=1,chunk_tokens=3",
                  zero, expect_log, &checks),
      TUNESMITH_OK)
      << tunesmith_last_error();
  EXPECT_EQ(checks, 2);
  tunesmith_engine_destroy(engine);
}

}  // namespace
}  // namespace tunesmith
