#include "tests/templates/rms_norm/cases.h"

#include "tunesmith/error.h"

namespace tunesmith::test {

std::vector<Problem> rms_norm_problems(std::int64_t rows) {
  // Alternatives that take turns: their numbers have no common factor, so that all pairs occur.
  const char* const options[] = {"",
                                 "eps=0",
                                 "weight=1,rstd=1",
                                 "weight=1,weight_offset=1",
                                 "weight=1,weight_dtype=f32,rstd=1",
                                 "eps=0.5,weight=1,weight_dtype=f32,weight_alignment=4",
                                 "eps=0,weight=1,weight_alignment=4,weight_offset=-0.3,rstd=1"};
  const char* const dtypes[] = {"f32", "f16", "bf16"};
  std::vector<Problem> problems;
  const auto add = [&](std::int64_t cols, const std::string& dtype, const std::string& out, const std::string& layout) {
    const std::string fields =
        "rows=" + std::to_string(rows) + ",cols=" + std::to_string(cols) + ",dtype=" + dtype + ",out_dtype=" + out + layout;
    const std::string more = options[problems.size() % std::size(options)];
    problems.push_back(normalized("rms_norm", fields + (more.empty() ? "" : "," + more)));
  };
  std::size_t turn = 0;
  for (const std::int64_t cols :
       {1, 2, 3, 7, 8, 31, 32, 33, 64, 100, 127, 129, 256, 781, 1000, 1024, 1025, 4096, 5003, 8192, 12672}) {
    const std::string in = dtypes[turn % 3], out = dtypes[turn / 3 % 3];
    const auto stride = [&](std::int64_t padding) { return std::to_string(cols + padding); };
    add(cols, in, out, "");
    switch (turn++ % 4) {
      case 0: add(cols, in, in, ",in_place=1"); break;
      case 1: add(cols, out, in, ",x_row_stride=" + stride(3) + ",y_row_stride=" + stride(5) + ",x_alignment=4"); break;
      case 2: add(cols, in, out, ",x_row_stride=" + stride(16) + ",y_row_stride=" + stride(32) + ",y_alignment=8"); break;
      default: add(cols, in, out, ",x_row_stride=0"); break;
    }
  }
  for (const char* in : dtypes)
    for (const char* out : dtypes) add(777, in, out, ",y_row_stride=785,x_alignment=8,y_alignment=4");
  return problems;
}

std::vector<Problem> f64_rms_norm_problems(std::int64_t rows) {
  const char* const options[] = {"",
                                 "eps=0",
                                 "weight=1,rstd=1",
                                 "weight=1,weight_offset=0.1",
                                 "weight=1,weight_dtype=f32,rstd=1",
                                 "eps=0.1",
                                 "eps=0,weight=1,weight_alignment=8,weight_offset=-0.3,rstd=1"};
  const char* const layouts[] = {"", ",in_place=1", ",x_alignment=8", ",x_row_stride=0"};
  std::vector<Problem> problems;
  for (const std::int64_t cols : {1, 2, 3, 31, 64, 65, 129, 777, 1000, 2501, 8192})
    for (const char* layout : layouts) {
      const std::string more = options[problems.size() % std::size(options)];
      problems.push_back(normalized("rms_norm", "rows=" + std::to_string(rows) + ",cols=" + std::to_string(cols) +
                                                    ",dtype=f64" + layout + (more.empty() ? "" : "," + more)));
    }
  return problems;
}

std::vector<Case> long_f64_rms_norm_cases(const DeviceInfo& device) {
  std::vector<Case> cases;
  for (const char* config :
       {"variant=hybrid", "variant=cluster,blocks_per_row=4", "variant=grid", "variant=two_pass,threads=256,unroll=4"}) {
    try {
      cases.push_back(case_of("rms_norm", "rows=16,cols=20001,dtype=f64,weight=1,rstd=1", device, config));
    } catch (const Error&) {
      if (device.arch.number() >= 90) throw;  // the device lacks clusters, or asynchronous copies
    }
  }
  return cases;
}

std::vector<Case> f64_rms_norm_capacity_cases(const DeviceInfo& device) {
  std::vector<Case> cases;
  for (const char* fields :
       {"rows=19,cols=3,dtype=f64,weight=1", "rows=19,cols=61,dtype=f64,weight=1,weight_dtype=f32,rstd=1",
        "rows=19,cols=1000,dtype=f64,weight=1,x_alignment=8", "rows=19,cols=3001,dtype=f64,weight=1,rstd=1"}) {
    const Problem problem = normalized("rms_norm", fields);
    cases.push_back({problem, find_op("rms_norm").parse(problem)->capacity_config(device).value()});
  }
  return cases;
}

std::vector<Case> long_rms_norm_cases(const DeviceInfo& device) {
  struct Shape {
    const char* fields;
    std::vector<const char*> configs;
  };
  const Shape shapes[] = {
      {"rows=16,cols=50257,dtype=bf16,weight=1,rstd=1",  // shifted rows
       {"variant=hybrid", "variant=cluster,blocks_per_row=4", "variant=two_pass,threads=1024,unroll=4"}},
      {"rows=16,cols=40003,dtype=f16,out_dtype=f32,weight=1,weight_dtype=f32,eps=0",
       {"variant=cluster,blocks_per_row=16", "variant=two_pass,threads=128,unroll=1"}},
      {"rows=16,cols=40000,y_alignment=8,rstd=1,weight=1,weight_offset=1", {"variant=grid", "variant=two_pass,threads=352"}},
      {"rows=16,cols=32768,in_place=1,rstd=1", {"variant=cluster", "variant=hybrid", "variant=two_pass"}},
      {"rows=17,cols=8200", {"variant=block", "variant=hybrid,threads=256"}},
      // Several rows for each group of a grid, and for each block.
      {"rows=19,cols=14008,dtype=bf16,rstd=1",
       {"variant=grid,threads=64,blocks_per_row=66,register_vectors=1,min_blocks=1",
        "variant=grid,threads=32,blocks_per_row=40,register_vectors=4,min_blocks=1"}},
      {"rows=1003,cols=24,dtype=f16,weight=1,rstd=1",
       {"variant=warp,lanes=4,threads=256", "variant=block,threads=32", "variant=two_pass,threads=32,unroll=2",
        "variant=two_pass,threads=64,unroll=2,blocks_per_sm=1"}},
      // Numbers of warps and blocks that are not powers of two.
      {"rows=16,cols=9000,weight=1",
       {"variant=block,threads=992", "variant=cluster,threads=96,blocks_per_row=7,min_blocks=1,register_vectors=3"}},
      // Rows that start between two vectors, in pairs and by elements.
      {"rows=23,cols=781,dtype=bf16,weight=1,rstd=1",
       {"variant=warp,lanes=32,access=pairs", "variant=warp,lanes=8,threads=128,access=elements",
        "variant=block,threads=64,access=pairs"}},
  };
  std::vector<Case> cases;
  for (const Shape& shape : shapes)
    for (const char* config : shape.configs) {
      try {
        cases.push_back(case_of("rms_norm", shape.fields, device, config));
      } catch (const Error&) {
        // The device lacks clusters, or asynchronous copies.
        if (device.arch.number() >= 90) throw;
      }
    }
  return cases;
}

}  // namespace tunesmith::test
