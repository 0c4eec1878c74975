#include "tests/templates/golden_cases.h"

#include "templates/render.h"

namespace tunesmith {
namespace {

// Every file that defines kernels of rows, every kind of cooperative group, and the options.
const GoldenCase all_cases[] = {
    {"softmax_warp_f32_1024", "softmax", "rows=4096,cols=1024", "sm_90a",
     "variant=warp,threads=128,lanes=32,load=no_allocate,store=streaming"},
    {"softmax_block_bf16_32000", "softmax", "rows=4096,cols=32000,dtype=bf16", "sm_90a",
     "variant=block,threads=512,min_blocks=2,registers=packed,load=evict_last,store=plain"},
    {"softmax_block_f16_to_f32_781", "softmax", "rows=64,cols=781,dtype=f16,out_dtype=f32", "sm_75",
     "variant=block,threads=128,min_blocks=8,registers=float32,load=plain,store=plain"},
    {"log_softmax_warp_pairs_bf16_781", "log_softmax", "rows=4096,cols=781,dtype=bf16", "sm_90a",
     "variant=warp,threads=64,lanes=32,access=pairs,load=plain,store=plain"},
    {"softmax_two_pass_f32_262144", "softmax", "rows=16,cols=262144", "sm_90a",
     "variant=two_pass,threads=1024,unroll=4,blocks_per_sm=0,load=evict_last,load_again=evict_first,store=evict_first"},
    {"log_softmax_split_f32_1048576", "log_softmax", "rows=1,cols=1048576", "sm_90a",
     "variant=split,threads=256,unroll=4,blocks_per_row=256,load=plain,load_again=plain,store=plain"},
    {"softmax_cluster_attention_f16_4096", "softmax",
     "rows=32768,cols=4096,dtype=f16,scale=0.125,causal=1,valid_cols=1,valid_cols_group=1024,mask=add,mask_dtype=bf16,safe="
     "1",
     "sm_90a",
     "variant=cluster,threads=256,blocks_per_row=2,register_vectors=1,min_blocks=2,registers=float32,load=plain,store="
     "plain"},
    {"softmax_pipeline_bf16_131072", "softmax", "rows=4096,cols=131072,dtype=bf16", "sm_90a",
     "variant=pipeline,threads=512,blocks_per_row=4,stages=13,chunk_bytes=16384,ahead=1,load=evict_last,store=plain"},
    {"log_softmax_backward_pipeline_f32_131072", "log_softmax_backward", "rows=4096,cols=131072,scale=0.5", "sm_90a",
     "variant=pipeline,threads=256,blocks_per_row=16,stages=13,chunk_bytes=8192,ahead=1,load=evict_last,store=plain"},
    {"softmax_backward_grid_f16_262144", "softmax_backward", "rows=16,cols=262144,dtype=f16", "sm_90a",
     "variant=grid,threads=512,blocks_per_row=16,register_vectors=2,min_blocks=1,registers=packed,load=plain,store=plain"},
    {"log_softmax_backward_two_pass_f32_100000", "log_softmax_backward", "rows=4096,cols=100000,mask=keep,in_place=1",
     "sm_90a", "variant=two_pass,threads=512,unroll=2,blocks_per_sm=1,load=evict_last,load_again=evict_first,store=plain"},
    {"softmax_strided_split_bf16_128256", "softmax", "rows=16,cols=128256,inner=4,dtype=bf16", "sm_90a",
     "variant=split,threads=256,lanes=1,unroll=8,blocks_per_row=16,load=evict_last,load_again=evict_first,store=plain"},
    {"log_softmax_backward_strided_f32_1000", "log_softmax_backward", "rows=32,cols=1000,inner=3136,scale=0.5,safe=1",
     "sm_90a", "variant=resident,threads=512,lanes=4,min_blocks=1,load=plain,store=plain"},
    {"cross_entropy_strided_bf16_21", "cross_entropy",
     "rows=8,cols=21,inner=262144,dtype=bf16,gradient=separate,argmax=1,mark_ignored=1,dloss=scalar", "sm_90a",
     "variant=resident,threads=64,lanes=64,min_blocks=8,load=plain,store=plain"},
    {"cross_entropy_strided_split_f32_128256", "cross_entropy",
     "rows=16,cols=128256,inner=4,reduction=none,label_smoothing=0.1,weight=1", "sm_90a",
     "variant=split,threads=256,lanes=1,unroll=8,blocks_per_row=16,load=evict_last,load_again=evict_first,store=plain"},
    {"cross_entropy_backward_strided_f16_150", "cross_entropy_backward", "rows=16,cols=150,inner=4096,dtype=f16,dlse=1",
     "sm_90a", "variant=tiles,threads=256,lanes=256,unroll=8,load=plain,store=plain"},
    {"softmax_block_f64_1000", "softmax", "rows=64,cols=1000,dtype=f64,scale=0.5", "sm_90a",
     "variant=block,threads=128,min_blocks=4,registers=float32,load=plain,store=plain"},
    {"cross_entropy_block_f64_1000", "cross_entropy",
     "rows=64,cols=1000,dtype=f64,gradient=separate,label_smoothing=0.1,weight=1,softcap=20,argmax=1", "sm_90a",
     "variant=block,threads=128,min_blocks=2,registers=float32,load=plain,store=plain"},
    {"cross_entropy_backward_f64_1000", "cross_entropy_backward", "rows=64,cols=1000,dtype=f64,dlse=1,nll=1", "sm_90a",
     "variant=tiles,threads=128,unroll=2,load=plain,store=plain"},
    {"rms_norm_warp_bf16_1024", "rms_norm", "rows=4096,cols=1024,dtype=bf16,weight=1,weight_dtype=f32,rstd=1", "sm_90a",
     "variant=warp,threads=128,lanes=32,load=no_allocate,store=streaming"},
    {"kv_append_e4m3_128", "kv_append",
     "tokens=64,heads=32,kv_heads=8,head_dim=128,dtype=bf16,cache_dtype=e4m3,scales=head,page_size=16,pages=600,rope=neox,"
     "max_positions=4096,qk_norm=1",
     "sm_90a", "variant=rows,threads=128"},
    {"merge_attention_parts_128", "merge_attention_parts",
     "parts=8,batch=64,heads=32,seq_q=1,head_dim=128,dtype=f32,out_dtype=bf16", "sm_90a",
     "variant=rows,threads=128,together=4"},
    {"row_program_add_norm_bf16_4096", "row_program",
     "rows=4096,cols=4096,dtype=bf16,numbers=eps=1e-5,in_place=res=r,program="
     "in x%2C r : float[row%2C col]%0A"
     "in w : f32[col]%0A"
     "num eps : f32 = 1e-6%0A"
     "h : float = x + r%0A"
     "sum ss = h * h%0A"
     "y = h * rsqrt(ss / cols + eps) * w%0A"
     "max a = abs(y)%0A"
     "q = max(a%2C 1e-12) / 448%0A"
     "out res : float[row%2C col] = h%0A"
     "out scale : f32[row] = q%0A"
     "out z : e4m3[row%2C col] = y / q%0A",
     "sm_90a", "variant=block,threads=256,min_blocks=4,registers=packed,load=evict_last,store=plain"},
    {"row_program_add_norm_f64_1000", "row_program",
     "rows=64,cols=1000,numbers=eps=1e-5,program="
     "in x : f64[row%2C col]%0A"
     "in r : bf16[row%2C col]%0A"
     "in w : f32[col]%0A"
     "in scale : f32[row]%0A"
     "num eps : f64 = 1e-6%0A"
     "h = x + r * scale%0A"
     "mean ms = h * h%0A"
     "out y : f64[row%2C col] = h * rsqrt(ms + eps) * w%0A"
     "out z : bf16[row%2C col] = 0.7 * h%0A",
     "sm_90a", "variant=block,threads=128,min_blocks=2,registers=packed,load=plain,store=plain"},
    {"row_program_sums_f64_1000", "row_program",
     "rows=64,cols=1000,dtype=f64,program="
     "in x : float[row%2C col]%0A"
     "lse l = x%0A"
     "out y : float[row%2C col] = x - l%0A"
     "colsum c : f64[col] = exp(x - l)%0A",
     "sm_90a",
     "variant=persistent,threads=128,blocks_per_row=1,stages=2,batch=2,keep_columns=0,min_blocks=1,load=plain,store=plain"},
    {"row_program_totals_bf16_4096", "row_program",
     "rows=4096,cols=4096,dtype=bf16,program="
     "in x : float[row%2C col]%0A"
     "in t : i32[row]%0A"
     "lse l = x%0A"
     "sum picked = select(col == t%2C x%2C 0)%0A"
     "colsum loss : f32[] = (l - picked) / rows%0A",
     "sm_90a", "variant=block,threads=256,min_blocks=2,registers=packed,load=plain,store=plain"},
    {"row_program_softmax_f32_262144", "row_program",
     "rows=16,cols=262144,program="
     "in x : float[row%2C col]%0A"
     "max m = x%0A"
     "e = exp(x - m)%0A"
     "sum s = e%0A"
     "out y : float[row%2C col] = e / s%0A",
     "sm_90a", "variant=two_pass,threads=1024,unroll=4,blocks_per_sm=0,load=plain,load_again=plain,store=plain"},
    {"row_program_top_columns_bf16_256", "row_program",
     "rows=4096,cols=256,dtype=bf16,program="
     "in x : float[row%2C col]%0A"
     "topk[6] v%2C i = x%0A"
     "sum s = exp(v)%0A"
     "out weight : f32[row%2C 6] = exp(v) / s%0A"
     "out column : i32[row%2C 6] = i%0A",
     "sm_90a", "variant=warp,threads=128,lanes=32,load=plain,store=plain"},
    {"row_program_strided_bf16_1000", "row_program",
     "rows=64,cols=1000,inner=196,dtype=bf16,program="
     "in x : float[row%2C col]%0A"
     "in w : f32[col]%0A"
     "lse l = x * w%0A"
     "out y : float[row%2C col] = x * w - l%0A",
     "sm_90a", "variant=resident,threads=256,lanes=8,min_blocks=1,load=plain,store=plain"},
    {"row_program_sums_bf16_4096", "row_program",
     "rows=4096,cols=4096,dtype=bf16,program="
     "in x : float[row%2C col]%0A"
     "in w : float[col]%0A"
     "in dy : float[row%2C col]%0A"
     "num eps : f32 = 1e-6%0A"
     "mean ms = x * x%0A"
     "t = rsqrt(ms + eps)%0A"
     "sum d = dy * w * x%0A"
     "out dx : float[row%2C col] = dy * w * t - d / cols * t * t * t * x%0A"
     "colsum dw : float[col] = dy * x * t%0A",
     "sm_90a", "variant=block,threads=256,min_blocks=2,registers=packed,load=plain,store=plain"},
    {"row_program_sums_f32_1000000", "row_program",
     "rows=16,cols=1000000,program="
     "in x : float[row%2C col]%0A"
     "in w : float[col]%0A"
     "in dy : float[row%2C col]%0A"
     "num eps : f32 = 1e-6%0A"
     "mean ms = x * x%0A"
     "t = rsqrt(ms + eps)%0A"
     "sum d = dy * w * x%0A"
     "out dx : float[row%2C col] = dy * w * t - d / cols * t * t * t * x%0A"
     "colsum dw : float[col] = dy * x * t%0A",
     "sm_90a", "variant=two_pass,threads=1024,unroll=4,blocks_per_sm=0,load=plain,load_again=plain,store=plain"},
    {"row_program_persistent_bf16_32768", "row_program",
     "rows=1024,cols=32768,dtype=bf16,program="
     "in x : float[row%2C col]%0A"
     "in w : float[col]%0A"
     "mean ms = x * x%0A"
     "out y : float[row%2C col] = x * rsqrt(ms + 1e-6) * w%0A",
     "sm_90a",
     "variant=persistent,threads=512,blocks_per_row=2,stages=3,batch=1,keep_columns=1,min_blocks=1,load=plain,store=plain"},
    {"row_program_sums_persistent_f32_4096", "row_program",
     "rows=4096,cols=4096,program="
     "in x : float[row%2C col]%0A"
     "sum s = x * x%0A"
     "out y : float[row%2C col] = x * s%0A"
     "colsum c : f32[col] = x * s%0A",
     "sm_90a",
     "variant=persistent,threads=256,blocks_per_row=1,stages=2,batch=4,keep_columns=0,min_blocks=1,load=plain,store=plain"},
    {"cross_entropy_staged_bf16_31", "cross_entropy", "rows=4096,cols=31,dtype=bf16,reduction=none,gradient=in_place",
     "sm_90a", "variant=warp,threads=64,lanes=1,access=staged,rounds=4,load=plain,store=plain"},
    {"softmax_backward_staged_f32_77", "softmax_backward", "rows=4096,cols=77", "sm_90a",
     "variant=warp,threads=64,lanes=4,access=staged,rounds=2,load=plain,store=plain"},
    {"row_program_staged_bf16_35", "row_program",
     "rows=4096,cols=35,dtype=bf16,program="
     "in gate%2C up : float[row%2C col]%0A"
     "out y : float[row%2C col] = silu(gate) * up%0A",
     "sm_90a", "variant=warp,threads=64,lanes=2,access=staged,rounds=4,load=plain,store=plain"},
};

}  // namespace

const std::span<const GoldenCase> golden_cases = all_cases;

ParsedCase parsed(const GoldenCase& c) {
  ParsedProblemPtr problem = find_op(c.op).parse({c.op, parse_fields(c.problem, "problem")});
  Config config = problem->complete_config(generic_device(parse_arch(c.arch)), Config{parse_fields(c.config, "config")});
  return {std::move(problem), std::move(config)};
}

std::string rendered(const GoldenCase& c, const TemplateSet& templates) {
  const auto [problem, config] = parsed(c);
  return render(*problem, config, templates);
}

}  // namespace tunesmith
