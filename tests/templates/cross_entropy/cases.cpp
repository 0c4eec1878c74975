#include "tests/templates/cross_entropy/cases.h"

#include "tunesmith/error.h"

namespace tunesmith::test {

std::vector<Problem> cross_entropy_problems() {
  const char* const losses[] = {
      // Shapes and dtypes.
      "cols=1,reduction=none",
      "cols=5,reduction=none,nll=1",
      "cols=64,dtype=bf16,reduction=none,argmax=1",
      "cols=100,dtype=f16,reduction=none,gradient=separate,nll=1",
      "cols=333,reduction=none,gradient=in_place,nll=1,argmax=1",
      "cols=1024,dtype=bf16,reduction=none,gradient=in_place",
      "cols=777,dtype=bf16,out_dtype=f32,reduction=none,gradient=separate,dlogits_row_stride=777",
      "cols=512,logits_row_stride=516,dlogits_row_stride=520,gradient=separate,reduction=none,target_dtype=i32",
      "cols=257,dtype=f16,logits_alignment=2,reduction=none,argmax=1,num_correct=1,target_dtype=i32",
      "cols=2000,gradient=separate,out_dtype=bf16,reduction=none,dloss=row",
      // One row of logits for all targets.
      "cols=130,logits_row_stride=0,reduction=none,nll=1,argmax=1",
      "cols=777,dtype=bf16,logits_row_stride=0,gradient=separate,dloss=row,reduction=none",
      "cols=1000,dtype=f16,logits_row_stride=0,logits_alignment=2,gradient=separate,out_dtype=f32",
      // Reductions.
      "cols=130,num_correct=1",
      "cols=130,reduction=sum,z_loss=0.01,gradient=separate",
      "cols=300,dtype=bf16,gradient=in_place,dloss=scalar",
      "cols=300,weight=1,gradient=in_place,check_targets=1,dloss=scalar",
      "cols=90,weight=1,z_loss=0.1,gradient=separate,check_targets=1,dloss=scalar",
      "cols=96,reduction=none,check_targets=1,num_correct=1,argmax=1,target_dtype=i32",
      // Options.
      "cols=200,label_smoothing=0.1,reduction=none,gradient=separate",
      "cols=201,label_smoothing=0.25,weight=1,reduction=none,gradient=separate,nll=1",
      "cols=150,label_smoothing=1,reduction=none,gradient=in_place",
      "cols=260,z_loss=0.0001,reduction=none,gradient=in_place",
      "cols=260,scale=0.5,reduction=none,gradient=in_place",
      "cols=260,softcap=30,reduction=none,gradient=in_place",
      "cols=131,softcap=5,scale=3,dtype=bf16,reduction=none,gradient=separate,out_dtype=f32,nll=1",
      "cols=400,ignore_index=7,reduction=none,weight=1",
      "cols=264,label_smoothing=0.1,weight=1,z_loss=0.001,softcap=20,scale=2,gradient=separate,num_correct=1,nll=1,"
      "argmax=1,dloss=scalar,target_dtype=i32",
  };
  const char* const backward[] = {
      "cols=5,reduction=none",
      "cols=1000,dtype=bf16,in_place=1,reduction=none",
      "cols=333,nll=1,reduction=none",
      "cols=513,dtype=f16,out_dtype=f32,nll=1,dloss=scalar,reduction=none",
      "cols=300,weight=1,label_smoothing=0.1,z_loss=0.01",
      "cols=300,softcap=10,scale=0.7,reduction=sum,in_place=1,nll=1",
      "cols=200,vocab_start=300,vocab_size=900,reduction=none,dtype=bf16",
      "cols=200,vocab_start=300,vocab_size=900,label_smoothing=0.1,nll=1",
      "cols=333,logits_row_stride=0,dloss=row,reduction=none",
      // With a gradient through lse.
      "cols=333,dlse=1,reduction=none,nll=1",
      "cols=1000,dtype=bf16,dlse=1,in_place=1",
      "cols=300,weight=1,label_smoothing=0.1,z_loss=0.01,softcap=10,scale=0.7,dlse=1,dtype=f16,out_dtype=f32",
      "cols=200,vocab_start=300,vocab_size=900,dlse=1,reduction=sum",
  };
  const char* const shards[] = {
      "cols=200,vocab_start=0,vocab_size=900",
      "cols=331,vocab_start=100,vocab_size=900,dtype=bf16,argmax=1",
      "cols=128,vocab_start=64,vocab_size=256,label_smoothing=0.1,weight=1,argmax=1",
      "cols=640,vocab_start=0,vocab_size=641,label_smoothing=0.2,dtype=f16,softcap=15,target_dtype=i32",
      "cols=331,vocab_start=100,vocab_size=900,logits_row_stride=0,argmax=1",
  };
  const char* const combine[] = {
      "shards=1,vocab_size=100,reduction=none,nll=1,argmax=1",
      "shards=3,vocab_size=1000,reduction=none,z_loss=0.01,num_correct=1,argmax=1,target_dtype=i32",
      "shards=8,vocab_size=500,label_smoothing=0.1",
      "shards=4,vocab_size=500,label_smoothing=0.1,weight=1,check_targets=1,nll=1",
      "shards=2,vocab_size=500,z_loss=0.1,weight=1,num_correct=1",
  };
  std::vector<Problem> problems;
  const auto add = [&](std::string_view op, const char* fields, const char* rows) {
    problems.push_back(normalized(op, std::string(rows) + fields));
  };
  for (const char* fields : losses) add("cross_entropy", fields, "rows=25,");
  for (const char* fields : backward) add("cross_entropy_backward", fields, "rows=25,");
  for (const char* fields : shards) add("cross_entropy_shard", fields, "rows=25,");
  for (const char* fields : combine) add("cross_entropy_combine", fields, "rows=150,");
  return problems;
}

std::vector<Case> cross_entropy_variants(const DeviceInfo& device) {
  struct Variant {
    const char *fields, *config;
  };
  const Variant variants[] = {
      {"cols=300", "variant=warp,prefetch_blocks=1"},
      {"cols=3000", "variant=block,threads=256"},
      {"cols=3001,dtype=bf16", "variant=block,threads=128,registers=packed"},
      {"cols=4096,dtype=bf16", "variant=hybrid,threads=128,register_vectors=1,min_blocks=2,prefetch_blocks=2"},
      {"cols=5003", "variant=hybrid,threads=256,register_vectors=2,min_blocks=1"},
      {"cols=6000", "variant=cluster,threads=128,blocks_per_row=2,register_vectors=3,min_blocks=1,prefetch_blocks=4"},
      {"cols=9001,dtype=bf16", "variant=cluster,threads=64,blocks_per_row=4,register_vectors=1,min_blocks=1"},
      {"cols=6000", "variant=grid,threads=128,blocks_per_row=3,register_vectors=2,min_blocks=1"},
      {"cols=9001,dtype=bf16",
       "variant=grid,threads=64,blocks_per_row=5,register_vectors=4,min_blocks=2,stagger_bytes_per_ns=20"},
      {"cols=3000", "variant=two_pass,threads=128,unroll=2"},
      {"cols=5001,dtype=f16", "variant=two_pass,threads=64,unroll=4,blocks_per_sm=1"},
      {"cols=5000", "variant=split,threads=64,unroll=2,blocks_per_row=4"},
      {"cols=9001,dtype=bf16", "variant=split,threads=128,unroll=1,blocks_per_row=3"},
      {"cols=6000", "variant=pipeline,threads=128,blocks_per_row=2,stages=7,chunk_bytes=4096,ahead=1"},
      {"cols=9008,dtype=bf16", "variant=pipeline,threads=64,blocks_per_row=4,stages=3,chunk_bytes=4096,ahead=0"},
      {"cols=5000,dtype=f16", "variant=pipeline,threads=256,blocks_per_row=1,stages=8,chunk_bytes=4096,ahead=1"},
  };
  const char* const asked[] = {
      ",reduction=none,nll=1",
      ",reduction=none,gradient=separate,argmax=1,nll=1",
      ",reduction=none,gradient=in_place,label_smoothing=0.1,weight=1,argmax=1",
      ",gradient=in_place,softcap=20,dloss=scalar,z_loss=0.001",
      ",reduction=none,gradient=in_place,nll=1,weight=1,dloss=row",
  };
  std::vector<Case> cases;
  const auto add = [&](std::string_view op, const std::string& fields, const char* config) {
    try {
      cases.push_back(case_of(op, fields, device, config));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;  // the device does not support the variant
    }
  };
  for (const Variant& variant : variants) {
    for (const char* options : asked)
      add("cross_entropy", std::string("rows=23,") + variant.fields + options, variant.config);
    add("cross_entropy_shard",
        std::string("rows=23,vocab_start=100,vocab_size=10000,label_smoothing=0.1,argmax=1,") + variant.fields,
        variant.config);
  }
  return cases;
}

}  // namespace tunesmith::test
