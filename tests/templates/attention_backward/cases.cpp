#include "tests/templates/attention_backward/cases.h"

#include "tests/templates/attention/cases.h"
#include "tests/templates/attention/mods.h"

namespace tunesmith::test {
namespace {

const Op& op() { return find_op("attention_backward"); }

/// The backward pass of a forward problem; every second one has a gradient of lse.
Problem backward_of(const Problem& forward, std::size_t number) {
  Problem problem{"attention_backward", forward.fields};
  const auto on = [&](const char* option) { problem.fields.set(option, std::int64_t{1}); };
  if (number % 2 == 0) on("dlse");
  if (forward.fields.contains("sinks")) on("dsinks");
  if (forward.fields.contains("alibi")) on("dslopes");
  return op().normalize(problem);
}

Problem with_mask(const std::string& fields, const char* mask_mod) {
  Problem problem{"attention_backward", parse_fields(fields, "fields")};
  problem.fields.set("mask_mod", std::string(mask_mod));
  return op().normalize(problem);
}

constexpr const char* tree_mask =
    "__device__ bool mask_mod(int b, int h, int q, int k, const Aux&) { return k <= q && (q / 16 == k / 16 || (k + h + b) % "
    "5 == 0); }";
constexpr const char* checkerboard_mask =
    "__device__ bool mask_mod(int, int, int q, int k, const Aux&) { return q / 64 % 2 == k / 64 % 2; }";

}  // namespace

std::vector<Problem> backward_problems(bool tensor_cores) {
  std::vector<Problem> problems;
  for (const Problem& forward : attention_problems(tensor_cores))
    if (!forward.fields.contains("page_size") && !forward.fields.contains("kv_lengths"))
      problems.push_back(backward_of(forward, problems.size()));
  const std::string dtype = tensor_cores ? ",dtype=bf16" : ",dtype=f32", other = ",dtype=f16";
  for (const std::string& fields :
       {// Gradients with gaps and with other strides than their arrays, and rows that are aligned to one element.
        "seq_q=50,seq_kv=70,head_dim=32,heads=2,batch=2,dq_head_stride=37,dq_seq_stride=101,dq_batch_stride=6001,dk_"
        "alignment=4" +
            dtype,
        "seq_q=50,seq_kv=70,head_dim=64,heads=4,kv_heads=2,batch=2,dk_seq_stride=384,dv_seq_stride=384,dk_batch_stride="
        "27000,"
        "dv_batch_stride=27000,dout_alignment=4,dv_alignment=4" +
            dtype,
        "seq_q=70,seq_kv=50,head_dim=40,head_dim_v=24,layout=bhsd,heads=2,dq_alignment=2,dv_alignment=2,dout_alignment=2" +
            other,
        // A gradient that all positions share, such as the gradient of a sum.
        "seq_q=70,seq_kv=90,head_dim=64,heads=2,batch=2,dout_seq_stride=0,dout_head_stride=0,dout_batch_stride=0" + other,
        // Gradients are added to what the arrays hold.
        "seq_q=150,seq_kv=190,head_dim=64,heads=4,kv_heads=2,batch=2,accumulate=1,dlse=1,causal=bottom-right" + dtype,
        "seq_q=70,seq_kv=90,head_dim=40,head_dim_v=24,heads=2,accumulate=1,dq_head_stride=57,dq_seq_stride=121,dk_alignment="
        "4,"
        "sinks=1,dsinks=1,alibi=1,dslopes=1" +
            other,
        "seq_q=80,seq_kv=120,head_dim=128,heads=2,batch=3,varlen=1,total_q=130,total_kv=210,accumulate=1" + dtype,
        "seq_q=130,seq_kv=100,head_dim=256,heads=2,kv_heads=1,accumulate=1,deterministic=1,sinks=1,dsinks=1" + other,
        // No queries, and none in the packed sequences.
        "seq_q=0,seq_kv=70,head_dim=64,heads=2,sinks=1,dsinks=1,alibi=1,dslopes=1" + other,
        "seq_q=0,seq_kv=70,head_dim=64,heads=2,sinks=1,dsinks=1,alibi=1,dslopes=1,accumulate=1" + other,
        "seq_q=9,seq_kv=70,head_dim=64,heads=2,varlen=1,batch=3,total_q=0,total_kv=100,alibi=1,dslopes=1" + dtype})
    problems.push_back(normalized("attention_backward", fields));
  problems.push_back(with_mask("seq_q=100,seq_kv=130,head_dim=64,heads=4,kv_heads=2,batch=2" + dtype, tree_mask));
  problems.push_back(
      with_mask("seq_q=300,seq_kv=200,head_dim=48,heads=2,causal=bottom-right,softcap=20" + other, checkerboard_mask));
  problems.push_back(
      with_mask("seq_q=200,seq_kv=150,head_dim=64,heads=2,batch=3,varlen=1,total_q=300,total_kv=333" + dtype, tree_mask));
  return problems;
}

std::vector<Case> backward_cases(const std::vector<Problem>& problems, const DeviceInfo& device, std::size_t more,
                                 std::uint64_t seed) {
  return attention_cases(problems, device, more, seed);
}

}  // namespace tunesmith::test
