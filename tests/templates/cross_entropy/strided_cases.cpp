#include "tests/templates/cross_entropy/strided_cases.h"

#include "tunesmith/error.h"

namespace tunesmith::test {

std::vector<Problem> strided_cross_entropy_problems() {
  const char* const losses[] = {
      // Shapes, dtypes and layouts.
      "rows=13,cols=1,inner=2,reduction=none",
      "rows=13,cols=2,inner=2,reduction=none,nll=1,gradient=separate",
      "rows=4,cols=5,inner=7,reduction=none,nll=1,dtype=bf16",
      "rows=2,cols=21,inner=16,dtype=bf16,reduction=none,argmax=1",
      "rows=2,cols=21,inner=49,dtype=f16,reduction=none,gradient=separate,nll=1",
      "rows=2,cols=100,inner=24,reduction=none,gradient=in_place,nll=1,argmax=1",
      "rows=4,cols=19,inner=8,dtype=bf16,out_dtype=f32,reduction=none,gradient=separate",
      "rows=3,cols=21,inner=12,reduction=none,gradient=separate,out_dtype=f16,target_dtype=i32,argmax=1",
      "rows=3,cols=33,inner=12,logits_alignment=4,dlogits_alignment=4,gradient=separate",
      ("rows=4,cols=33,inner=8,logits_row_stride=400,logits_col_stride=12,dlogits_row_stride=370,dlogits_col_stride=11,"
       "gradient=separate,reduction=none"),
      "rows=4,cols=33,inner=8,logits_row_stride=528,logits_col_stride=16,logits_inner_stride=2,reduction=none,nll=1",
      "rows=4,cols=33,inner=8,logits_row_stride=264,logits_col_stride=1,logits_inner_stride=33,gradient=separate",
      ("rows=26,cols=60,logits_row_stride=1,logits_col_stride=26,dlogits_row_stride=120,dlogits_col_stride=2,"
       "gradient=separate,reduction=none"),
      ("rows=26,cols=60,logits_row_stride=1,logits_col_stride=26,gradient=in_place,dlogits_row_stride=1,"
       "dlogits_col_stride=26"),
      "rows=3,cols=40,inner=12,logits_row_stride=0,reduction=none,nll=1,argmax=1",
      "rows=3,cols=40,inner=12,logits_col_stride=0,gradient=separate",
      ("rows=3,cols=40,inner=12,logits_row_stride=40,logits_col_stride=1,logits_inner_stride=0,gradient=separate,"
       "reduction=none,dloss=row"),
      "rows=1,cols=1003,inner=32,gradient=in_place,reduction=none",
      "rows=7,cols=3001,inner=4,dtype=bf16,gradient=in_place,reduction=none",
      // Reductions.
      "rows=3,cols=130,inner=12,num_correct=1",
      "rows=3,cols=13,inner=12,reduction=sum,z_loss=0.01,gradient=separate",
      "rows=3,cols=30,inner=16,dtype=bf16,gradient=in_place,dloss=scalar",
      "rows=3,cols=30,inner=16,weight=1,gradient=in_place,check_targets=1,dloss=scalar",
      "rows=3,cols=90,inner=10,weight=1,z_loss=0.1,gradient=separate,check_targets=1,dloss=scalar",
      "rows=3,cols=96,inner=9,reduction=none,check_targets=1,num_correct=1,argmax=1,target_dtype=i32",
      // Options.
      "rows=3,cols=200,inner=12,label_smoothing=0.1,reduction=none,gradient=separate",
      "rows=3,cols=201,inner=12,label_smoothing=0.25,weight=1,reduction=none,gradient=separate,nll=1",
      "rows=3,cols=150,inner=12,label_smoothing=1,reduction=none,gradient=in_place",
      "rows=3,cols=26,inner=12,z_loss=0.0001,reduction=none,gradient=in_place",
      "rows=3,cols=26,inner=12,scale=0.5,reduction=none,gradient=in_place",
      "rows=3,cols=26,inner=12,softcap=30,reduction=none,gradient=in_place",
      "rows=3,cols=131,inner=12,softcap=5,scale=3,dtype=bf16,reduction=none,gradient=separate,out_dtype=f32,nll=1",
      "rows=3,cols=40,inner=12,ignore_index=7,reduction=none,weight=1",
      "rows=3,cols=40,inner=12,reduction=none,argmax=1,mark_ignored=1",
      ("rows=3,cols=264,inner=12,label_smoothing=0.1,weight=1,z_loss=0.001,softcap=20,scale=2,gradient=separate,"
       "num_correct=1,nll=1,argmax=1,dloss=scalar,target_dtype=i32"),
  };
  const char* const backward[] = {
      "rows=13,cols=5,inner=2,reduction=none",
      "rows=3,cols=100,inner=16,dtype=bf16,in_place=1,reduction=none",
      "rows=4,cols=33,inner=7,nll=1,reduction=none",
      "rows=3,cols=51,inner=12,dtype=f16,out_dtype=f32,nll=1,dloss=scalar,reduction=none",
      "rows=3,cols=30,inner=12,weight=1,label_smoothing=0.1,z_loss=0.01",
      "rows=3,cols=30,inner=12,softcap=10,scale=0.7,reduction=sum,in_place=1,nll=1",
      "rows=3,cols=200,inner=12,vocab_start=300,vocab_size=900,reduction=none,dtype=bf16",
      "rows=26,cols=60,logits_row_stride=1,logits_col_stride=26,reduction=none",
      "rows=3,cols=40,inner=12,logits_row_stride=0,dloss=row,reduction=none",
      // With a gradient through lse.
      "rows=3,cols=33,inner=12,dlse=1,reduction=none,nll=1",
      "rows=3,cols=100,inner=16,dtype=bf16,dlse=1,in_place=1",
      ("rows=3,cols=30,inner=12,weight=1,label_smoothing=0.1,z_loss=0.01,softcap=10,scale=0.7,dlse=1,dtype=f16,"
       "out_dtype=f32"),
  };
  std::vector<Problem> problems;
  for (const char* fields : losses) problems.push_back(normalized("cross_entropy", fields));
  for (const char* fields : backward) problems.push_back(normalized("cross_entropy_backward", fields));
  return problems;
}

std::vector<Case> strided_cross_entropy_variants(const DeviceInfo& device) {
  const char* const variants[] = {"variant=resident,threads=64,lanes=64",
                                  "variant=resident,threads=128,lanes=4",
                                  "variant=resident,threads=128,lanes=32",
                                  "variant=cluster,threads=64,lanes=8,blocks_per_row=2",
                                  "variant=cluster,threads=128,lanes=32,blocks_per_row=5",
                                  "variant=two_pass,threads=64,lanes=8,unroll=2",
                                  "variant=two_pass,threads=128,lanes=32,unroll=4",
                                  "variant=split,threads=64,lanes=4,unroll=2,blocks_per_row=3",
                                  "variant=split,threads=64,lanes=64,unroll=1,blocks_per_row=7"};
  const char* const asked[] = {
      ",reduction=none,nll=1",
      ",reduction=none,gradient=separate,argmax=1,nll=1",
      ",reduction=none,gradient=in_place,label_smoothing=0.1,weight=1,argmax=1",
      ",gradient=in_place,softcap=20,dloss=scalar,z_loss=0.001",
      ",reduction=none,gradient=in_place,nll=1,weight=1,dloss=row,dtype=bf16",
  };
  std::vector<Case> cases;
  for (const char* variant : variants)
    for (const char* options : asked) {
      try {
        cases.push_back(case_of("cross_entropy", std::string("rows=5,cols=29,inner=8") + options, device, variant));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::invalid_argument) throw;  // the device does not support the variant
      }
    }
  for (const char* tiles : {"threads=64,lanes=64,unroll=5", "threads=64,lanes=1,unroll=1", "threads=32,lanes=8,unroll=4",
                            "threads=256,lanes=16,unroll=2"})
    cases.push_back(case_of("cross_entropy_backward", "rows=5,cols=29,inner=8,nll=1,reduction=none,dlse=1", device, tiles));
  return cases;
}

}  // namespace tunesmith::test
