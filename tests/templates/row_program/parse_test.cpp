// Correct programs: what their graphs are.

#include "templates/row_program/parse.h"

#include <gtest/gtest.h>

#include "templates/row_program/programs.h"

namespace tunesmith::row_program {
namespace {

TEST(RowProgramParse, AllShippedProgramsAreCorrect) {
  ASSERT_GT(shipped_programs().size(), 20u);
  for (const auto& [name, text] : shipped_programs()) {
    SCOPED_TRACE(name);
    const Program program = parse(text, name);
    EXPECT_FALSE(program.outputs.empty());
    for (const Type dtype : {Type::f32, Type::f16, Type::bf16}) {
      const Program typed = with_dtype(program, dtype);
      for (const Node& node : typed.nodes) EXPECT_FALSE(node.to_problem_dtype);
    }
  }
}

}  // namespace
}  // namespace tunesmith::row_program
