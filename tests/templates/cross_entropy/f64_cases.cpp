#include "tests/templates/cross_entropy/f64_cases.h"

#include <algorithm>

#include "tests/templates/cross_entropy/cases.h"
#include "tests/templates/cross_entropy/strided_cases.h"
#include "tunesmith/error.h"

namespace tunesmith::test {

std::vector<Problem> f64_cross_entropy_problems() {
  std::vector<Problem> problems;
  for (const std::vector<Problem>& all : {cross_entropy_problems(), strided_cross_entropy_problems()})
    for (Problem problem : all) {
      for (const char* dtype : {"dtype", "out_dtype"})
        if (problem.fields.contains(dtype)) problem.fields.set(dtype, std::string("f64"));
      for (const char* alignment : {"logits_alignment", "dlogits_alignment"})
        if (problem.fields.contains(alignment))
          problem.fields.set(alignment, std::max<std::int64_t>(problem.fields.integer(alignment), 8));
      problems.push_back(find_op(problem.op).normalize(problem));
    }
  return problems;
}

std::vector<Case> f64_cross_entropy_variants(const DeviceInfo& device) {
  constexpr std::pair<const char*, const char*> adjacent[] = {
      {"rows=23,cols=300", "variant=warp,lanes=8"},
      {"rows=23,cols=301", "variant=warp,lanes=32,access=elements"},
      {"rows=23,cols=2001", "variant=block,threads=256"},
      {"rows=23,cols=5003", "variant=hybrid,threads=256,register_vectors=2,min_blocks=1"},
      {"rows=23,cols=3000", "variant=cluster,threads=128,blocks_per_row=3,register_vectors=2,min_blocks=1"},
      {"rows=23,cols=3001", "variant=grid,threads=128,blocks_per_row=3,register_vectors=2,min_blocks=1"},
      {"rows=23,cols=2999", "variant=two_pass,threads=64,unroll=2"},
      {"rows=23,cols=5000", "variant=split,threads=64,unroll=1,blocks_per_row=4"},
  };
  constexpr std::pair<const char*, const char*> strided[] = {
      {"rows=5,cols=29,inner=8", "variant=resident,threads=128,lanes=4"},
      {"rows=5,cols=29,inner=7", "variant=resident,threads=128,lanes=32"},
      {"rows=5,cols=29,inner=8", "variant=cluster,threads=64,lanes=8,blocks_per_row=2"},
      {"rows=5,cols=129,inner=8", "variant=two_pass,threads=64,lanes=8,unroll=2"},
      {"rows=5,cols=129,inner=9", "variant=split,threads=64,lanes=4,unroll=2,blocks_per_row=3"},
  };
  const char* const options[] = {
      ",reduction=none,nll=1,argmax=1",
      ",reduction=none,gradient=separate,argmax=1,nll=1",
      ",reduction=none,gradient=in_place,label_smoothing=0.1,weight=1",
      ",gradient=in_place,softcap=20,dloss=scalar,z_loss=0.001,weight=1,num_correct=1",
      ",gradient=separate,label_smoothing=0.3,scale=0.7,argmax=1",
  };
  std::vector<Case> cases;
  const auto add = [&](std::string_view op, const std::string& fields, const char* config) {
    try {
      cases.push_back(case_of(op, fields + ",dtype=f64", device, config));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;  // the device does not support the variant
    }
  };
  for (const auto& [fields, config] : adjacent)
    for (const char* more : options) add("cross_entropy", std::string(fields) + more, config);
  for (const auto& [fields, config] : adjacent)
    add("cross_entropy_shard", std::string(fields) + ",vocab_start=100,vocab_size=10000,label_smoothing=0.1,argmax=1",
        config);
  for (const auto& [fields, config] : strided)
    for (const char* more : options) add("cross_entropy", std::string(fields) + more, config);
  for (const auto& [fields, config] : {std::pair{"rows=23,cols=1001", "threads=64,unroll=2"},
                                       {"rows=23,cols=2000", "threads=128,unroll=4"},
                                       {"rows=5,cols=29,inner=8", "threads=64,lanes=8,unroll=4"},
                                       {"rows=5,cols=29,inner=7", "threads=256,lanes=16,unroll=2"}})
    for (const char* more : {",reduction=none,nll=1,dlse=1", ",label_smoothing=0.1,weight=1,z_loss=0.01,in_place=1"})
      add("cross_entropy_backward", std::string(fields) + more, config);
  return cases;
}

}  // namespace tunesmith::test
