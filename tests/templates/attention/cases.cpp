#include "tests/templates/attention/cases.h"

namespace tunesmith::test {

std::vector<Problem> attention_problems(bool tensor_cores) {
  const std::vector<std::string> shapes{
      // Sizes of 1, and lengths around the size of a tile.
      "seq_q=1,seq_kv=1,head_dim=8",
      "seq_q=64,seq_kv=128,head_dim=64,heads=2,batch=2",
      "seq_q=113,seq_kv=203,head_dim=128,heads=3,layout=bhsd",
      "seq_q=239,seq_kv=1,head_dim=32,heads=2",
      "seq_q=1,seq_kv=239,head_dim=64,heads=4,kv_heads=2,batch=3",
      "seq_q=130,seq_kv=67,head_dim=256",
      "seq_q=65,seq_kv=129,head_dim=192,head_dim_v=128,heads=2",
      "seq_q=65,seq_kv=129,head_dim=40,head_dim_v=72,heads=6,kv_heads=2,causal=bottom-right",
      "seq_q=100,seq_kv=100,head_dim=24,heads=5,kv_heads=1,causal=top-left",
      "seq_q=77,seq_kv=141,head_dim=8,head_dim_v=256,causal=top-left",
      "seq_q=141,seq_kv=77,head_dim=104,head_dim_v=8,causal=bottom-right,layout=bhsd",  // the first queries see no keys
      "seq_q=200,seq_kv=200,head_dim=64,window_left=20,window_right=5",
      "seq_q=150,seq_kv=250,head_dim=64,window_left=0,window_right=0",
      "seq_q=250,seq_kv=150,head_dim=64,window_left=33,causal=bottom-right",
      "seq_q=250,seq_kv=150,head_dim=64,window_left=33,causal=top-left",
      "seq_q=90,seq_kv=300,head_dim=64,window_right=70",
      // Options.
      "seq_q=70,seq_kv=90,head_dim=64,scale=0.5",
      "seq_q=70,seq_kv=90,head_dim=64,softcap=15",
      "seq_q=70,seq_kv=90,head_dim=64,softcap=0.5",  // most scores are near the cap
      "seq_q=70,seq_kv=90,head_dim=64,heads=4,alibi=1",
      "seq_q=280,seq_kv=300,head_dim=64,heads=2,alibi=1",  // K/V tiles on both sides of the queries
      "seq_q=70,seq_kv=90,head_dim=64,heads=3,sinks=1",
      "seq_q=90,seq_kv=70,head_dim=64,heads=3,sinks=1,causal=bottom-right",
      "seq_q=90,seq_kv=110,head_dim=80,heads=6,kv_heads=3,batch=2,alibi=1,sinks=1,softcap=30,causal=bottom-right,"
      "window_left=40,scale=0.2,layout=bhsd",
      // Packed sequences.
      "seq_q=60,seq_kv=90,head_dim=64,heads=2,batch=7,varlen=1,total_q=200,total_kv=400",
      "seq_q=60,seq_kv=90,head_dim=64,heads=4,kv_heads=2,batch=7,varlen=1,total_q=200,total_kv=400,causal=bottom-right,"
      "layout=bhsd",
      "seq_q=60,seq_kv=90,head_dim=48,heads=2,batch=5,varlen=1,total_q=150,total_kv=170,causal=top-left,window_left=11,"
      "alibi=1,sinks=1",
      "seq_q=300,seq_kv=500,head_dim=128,heads=2,batch=5,varlen=1,total_q=900,total_kv=1100,causal=bottom-right",
      "seq_q=520,seq_kv=400,head_dim=64,heads=3,batch=4,varlen=1,total_q=1100,total_kv=700,window_left=100,softcap=20",
      "seq_q=150,seq_kv=200,head_dim=200,head_dim_v=136,heads=2,batch=3,varlen=1,total_q=290,total_kv=210,layout=bhsd",
      // Strides: q, k and v in one array; gaps; bases and rows that are aligned to only one element.
      "seq_q=50,seq_kv=50,head_dim=64,heads=2,batch=2,q_seq_stride=384,k_seq_stride=384,v_seq_stride=384,"
      "q_batch_stride=19200,k_batch_stride=19200,v_batch_stride=19200",
      "seq_q=50,seq_kv=70,head_dim=32,heads=2,batch=2,q_head_stride=37,q_seq_stride=101,q_batch_stride=6001,"
      "k_alignment=4,o_head_stride=36,o_seq_stride=99,o_batch_stride=5001",
      "seq_q=50,seq_kv=70,head_dim=32,layout=bhsd,heads=2,v_alignment=4,o_alignment=4,q_alignment=8",
      // Dropout, with seed and offset of the problem or from an array, at positions beyond the first tile.
      "seq_q=150,seq_kv=190,head_dim=64,heads=4,kv_heads=2,batch=2,dropout=0.2,dropout_seed=-5,dropout_offset=7",
      "seq_q=90,seq_kv=110,head_dim=40,head_dim_v=72,heads=3,batch=2,dropout=0.5,rng_state=1,causal=bottom-right,alibi=1",
      "seq_q=70,seq_kv=130,head_dim=128,heads=2,batch=3,varlen=1,total_q=150,total_kv=300,dropout=0.9,softcap=20,sinks=1",
      // No keys, and strides that broadcast.
      "seq_q=70,seq_kv=0,head_dim=64,heads=2,batch=2",
      "seq_q=70,seq_kv=0,head_dim=64,heads=2,sinks=1,causal=bottom-right",
      "seq_q=5,seq_kv=0,head_dim=64,heads=4,kv_heads=1,window_left=3,alibi=1",
      "seq_q=70,seq_kv=90,head_dim=64,heads=2,batch=3,k_batch_stride=0,v_batch_stride=0",
      "seq_q=70,seq_kv=90,head_dim=64,heads=4,batch=2,k_head_stride=0,v_head_stride=0,q_seq_stride=0,causal=top-left",
      // Keys in pages, and lengths in device memory.
      "seq_q=1,head_dim=128,heads=8,kv_heads=2,batch=9,page_size=16,pages=60,max_pages=20",
      "seq_q=40,head_dim=64,heads=4,kv_heads=2,batch=6,varlen=1,total_q=150,causal=bottom-right,sinks=1,page_size=16,pages="
      "50,"
      "max_pages=20",
      "seq_q=3,head_dim=72,heads=4,kv_heads=1,batch=9,softcap=20,alibi=1,layout=bhsd,page_size=5,pages=200,max_pages=40",
      "seq_q=90,head_dim=40,heads=2,batch=7,causal=bottom-right,window_left=60,page_size=1,pages=900,max_pages=200",
      "seq_q=60,seq_kv=300,head_dim=64,heads=2,batch=7,kv_lengths=1,causal=bottom-right",
      // Small dot products with softcap; biases that tensor cores add, and biases that they cannot add because f16
      // overflows with a large scale.
      "seq_q=300,seq_kv=500,head_dim=64,heads=2,softcap=50,dtype=bf16",
      "seq_q=300,seq_kv=500,head_dim=64,heads=2,softcap=50,causal=bottom-right,dtype=f16",
      "seq_q=300,seq_kv=500,head_dim=64,heads=2,alibi=1,scale=2,dtype=f16",
      "seq_q=300,seq_kv=500,head_dim=64,heads=4,alibi=1,causal=bottom-right,dtype=bf16",
      "seq_q=500,seq_kv=700,head_dim=128,heads=4,alibi=1,window_left=300,window_right=200,dtype=f16",
      "seq_q=300,seq_kv=500,head_dim=64,heads=2,batch=3,varlen=1,total_q=600,total_kv=900,alibi=1,dtype=bf16",
  };
  const char* const dtypes[] = {"bf16", "f32", "f16"};
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    std::string dtype = dtypes[i % 3];
    if (tensor_cores && dtype == "f32") dtype = "f16";
    const bool has_dtype = shapes[i].find("dtype=") != std::string::npos;
    problems.push_back(normalized("attention", shapes[i] + (has_dtype ? "" : ",dtype=" + dtype)));
  }
  return problems;
}

std::vector<Case> attention_cases(const std::vector<Problem>& problems, const DeviceInfo& device, std::size_t more,
                                  std::uint64_t seed) {
  std::vector<Case> cases;
  for (const Problem& problem : problems)
    for (const Config& config : sample_space(problem, device, 1 + more, seed++)) cases.push_back({problem, config});
  return cases;
}

}  // namespace tunesmith::test
