// Every field of attention's backward pass in wgmma, compiled by NVRTC. A field without a case fails a test, and so does a
// limit of wgmma that is not listed. Numerics: tests/random.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/support/source_compilation.h"

namespace tunesmith {
namespace {

using test::Case;

/// Fields that differ from a small grouped problem.
struct Option {
  std::string fields;
  std::vector<std::pair<const char*, std::string>> texts{};  ///< fields whose values are source code
  const char* not_in_wgmma = "";                             ///< a part of the reason; empty: wgmma has it
};

std::string score_mod(const std::string& body, const std::string& aux = "") {
  return aux + "__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) { return " + body +
         "; }\n";
}

std::vector<Option> options() {
  const std::string
      square = score_mod("score + 0.1f * score * score"),
      bias = score_mod("score + aux.bias[q + k]", "// aux: bias:f32[seq_q+seq_kv]\n"),
      gain = score_mod("score * aux.gain[h]"),
      stripes =
          "__device__ bool mask_mod(int b, int h, int q, int k, const Aux&) { return (q / 16 + k / 16 + h) % 3 != "
          "1; }\n",
      grad =
          "__device__ float score_mod_grad(float score, int b, int h, int q, int k, const Aux& aux) { return 1 "
          "+ 0.2f * score; }\n";
  return {
      // Shapes.
      {"batch=3,heads=6,kv_heads=2,seq_q=41,seq_kv=53,head_dim=48"},
      {"head_dim=64,head_dim_v=32"},
      {"seq_kv=0", {}, "cannot read empty arrays"},
      {"seq_q=0", {}, "cannot read empty arrays"},
      {"dtype=f16"},
      {"layout=bhsd"},
      // Masks.
      {"causal=top-left"},
      {"causal=bottom-right"},
      {"window_left=9"},
      {"window_right=7"},
      {"window_left=9,window_right=7,causal=bottom-right"},
      {"varlen=1,batch=5,total_q=90,total_kv=110"},
      {"varlen=1,batch=5,total_q=90,total_kv=110,causal=bottom-right,layout=bhsd"},
      {"varlen=1,batch=5,total_q=0,total_kv=110,alibi=1,dslopes=1,sinks=1,dsinks=1", {}, "cannot read empty arrays"},
      {"", {{"mask_mod", stripes}}},
      {"block_mask=write", {{"mask_mod", stripes}}},
      {"block_mask=read", {{"mask_mod", stripes}}},
      // Scores.
      {"scale=0.4"},
      {"softcap=2"},
      {"alibi=1"},
      {"sinks=1"},
      {"", {{"score_mod", square}}},
      {"", {{"score_mod", square}, {"score_mod_grad", grad}}},
      {"aux=gain:f32[heads]", {{"score_mod", gain}}},
      {"daux=bias", {{"score_mod", bias}}},
      {"daux=bias,deterministic=1", {{"score_mod", bias}}},
      // Dropout.
      {"dropout=0.3"},
      {"dropout=0.3,dropout_seed=5,dropout_offset=9"},
      {"dropout=0.3,rng_state=1"},
      // Gradients.
      {"dlse=1"},
      {"sinks=1,dsinks=1"},
      {"alibi=1,dslopes=1"},
      {"deterministic=1"},
      {"accumulate=1"},
      {"accumulate=1,sinks=1,dsinks=1,alibi=1,dslopes=1,dlse=1,softcap=3,causal=bottom-right,window_left=30,dropout=0.2,"
       "head_dim=64"},
      // Rows apart, broadcast rows, and addresses that are aligned to one element.
      {"q_batch_stride=9000,q_seq_stride=160,q_head_stride=40"},
      {"k_batch_stride=9000,k_seq_stride=160,k_head_stride=40"},
      {"v_batch_stride=9000,v_seq_stride=160,v_head_stride=40"},
      {"o_batch_stride=9000,o_seq_stride=160,o_head_stride=40"},
      {"dout_batch_stride=9000,dout_seq_stride=160,dout_head_stride=40"},
      {"dq_batch_stride=9000,dq_seq_stride=160,dq_head_stride=40"},
      {"dk_batch_stride=9000,dk_seq_stride=160,dk_head_stride=40"},
      {"dv_batch_stride=9000,dv_seq_stride=160,dv_head_stride=40"},
      {"k_batch_stride=0,v_batch_stride=0", {}, "strides above 0; k has a stride of 0"},
      {"dout_batch_stride=0,dout_seq_stride=0,dout_head_stride=0", {}, "strides above 0; dout has a stride of 0"},
      {"q_alignment=4", {}, "those of q are not"},
      {"k_alignment=4", {}, "those of k are not"},
      {"v_alignment=4", {}, "those of v are not"},
      {"o_alignment=4"},
      {"dout_alignment=4", {}, "those of dout are not"},
      {"dq_alignment=4", {}, "those of dq are not"},
      {"dk_alignment=4", {}, "those of dk are not"},
      {"dv_alignment=4", {}, "those of dv are not"},
  };
}

const Op& op() { return find_op("attention_backward"); }

Problem problem_of(const Option& option, const char* dtype) {
  Problem problem{"attention_backward", parse_fields("batch=2,heads=4,kv_heads=2,seq_q=40,seq_kv=50,head_dim=32", "fields")};
  problem.fields.set("dtype", std::string(dtype));
  for (const auto& [name, value] : parse_fields(option.fields, "fields")) problem.fields.set(name, value);
  for (const auto& [name, text] : option.texts) problem.fields.set(name, text);
  return op().normalize(problem);
}

TEST(AttentionBackwardOptions, EveryFieldHasACase) {
  std::set<std::string> set;
  for (const Option& option : options()) {
    for (const auto& [name, value] : parse_fields(option.fields, "fields")) set.insert(std::string(name));
    for (const auto& [name, text] : option.texts) set.insert(name);
  }
  for (const FieldInfo& field : op().problem_fields()) EXPECT_TRUE(set.contains(std::string(field.name))) << field.name;
}

/// Returns the default configuration of wgmma with this number of kernels. Throws the error that says why there is none.
Case wgmma_case(const Option& option, int kernels) {
  return test::case_of(problem_of(option, "bf16"), generic_device(parse_arch("sm_90a")),
                       "variant=wgmma,kernels=" + std::to_string(kernels));
}

class AttentionBackwardOptionsNvrtc : public test::SourceCompilation {};

TEST_F(AttentionBackwardOptionsNvrtc, InWgmma) {
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  std::vector<Source> sources;
  for (const Option& option : options()) {
    const Problem problem = problem_of(option, "bf16");
    const std::vector<Config> space = op().parse(problem)->search_space(device, Effort::full);
    const auto found = std::ranges::find(space, "wgmma", &Config::variant);
    EXPECT_EQ(found == space.end(), *option.not_in_wgmma != '\0') << option.fields;
    if (found != space.end()) {
      for (const int kernels : {1, 2}) sources.push_back(source_of(wgmma_case(option, kernels), device.arch));
      continue;
    }
    const Config keys{parse_fields("variant=wgmma,roles=keys,tile_q=64,stages=2,ahead=0", "config")};
    const std::string reason = op().parse(problem)->why_invalid(device, keys);
    EXPECT_NE(reason.find(option.not_in_wgmma), std::string::npos) << option.fields << ": " << reason;
    EXPECT_EQ(op().parse(problem)->default_config(device).variant(), "mma") << option.fields;
  }
  compile_covering(sources);
}

}  // namespace
}  // namespace tunesmith
