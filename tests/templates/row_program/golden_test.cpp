// Golden sources of row programs: what is generated for each program, without the templates that all programs share.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "templates/render.h"
#include "tests/support/golden_sources.h"
#include "tests/templates/row_program/op_cases.h"

namespace tunesmith {
namespace {

/// Returns the parameters, the program, the constants and the kernels of a source.
std::string generated_part(const std::string& source) {
  const std::size_t begin = source.find("/// The kernels' only argument.\n");
  return begin == std::string::npos ? source : source.substr(begin);
}

// Set TUNESMITH_UPDATE_GOLDEN to write them anew.
TEST(RowProgramGolden, EveryProgramMatchesItsSource) {
  const char* const configs[] = {
      "variant=block,threads=256,min_blocks=1,registers=float32", "variant=two_pass,threads=256,unroll=2,blocks_per_sm=0",
      "variant=persistent,threads=128,blocks_per_row=2,stages=2,batch=2,keep_columns=0,min_blocks=1",
      "variant=cluster,threads=256,blocks_per_row=2,register_vectors=1,min_blocks=1"};
  test::GoldenSources golden("row_program");
  for (const test::NamedProgram& program : test::row_programs()) {
    // By its name: one more program leaves the sources of the others as they are.
    const auto turn = static_cast<std::size_t>(std::accumulate(program.name.begin(), program.name.end(), 0));
    std::string name = program.name;
    std::ranges::replace(name, ' ', '_');
    const auto cases = test::row_program_cases(program.text, "rows=4096,cols=4096,dtype=bf16",
                                               generic_device(parse_arch("sm_90a")), {configs[turn % std::size(configs)]});
    ASSERT_EQ(cases.size(), 1U) << program.name;
    const std::string text = generated_part(render(*cases[0].op().parse(cases[0].problem), cases[0].config));
    golden.check(name, text);
  }
  struct Strided {
    const char *name, *program, *config;
    const char* strides = "";
  };
  for (const Strided& strided :
       {Strided{"strided_softmax", "softmax", "variant=resident,threads=256,lanes=8,min_blocks=1,load=plain,store=plain"},
        Strided{"strided_layer_norm_gradient", "shipped layer_norm_gradient",
                "variant=split,threads=256,lanes=8,unroll=2,blocks_per_row=4,min_blocks=1,load=plain,load_again=plain,"
                "store=plain"},
        Strided{"strided_swiglu", "swiglu", "variant=resident,threads=256,lanes=8,min_blocks=1,load=plain,store=plain",
                ",col_strides=gate=1,inner_strides=gate=1000"}}) {
    const auto cases = test::row_program_cases(test::row_program_text(strided.program),
                                               std::string("rows=64,cols=1000,inner=196,dtype=bf16") + strided.strides,
                                               generic_device(parse_arch("sm_90a")), {strided.config});
    ASSERT_EQ(cases.size(), 1U) << strided.name;
    const std::string text = generated_part(render(*cases[0].op().parse(cases[0].problem), cases[0].config));
    golden.check(strided.name, text);
  }
  golden.finish();
}

}  // namespace
}  // namespace tunesmith
