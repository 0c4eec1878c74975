// Tokens of sources: digests ignore comments and white space, and nothing else.

#include "core/tokens.h"

#include <gtest/gtest.h>

namespace tunesmith {
namespace {

struct Pair {
  const char* what;
  const char* one;
  const char* other;
};

TEST(Tokens, IgnoreCommentsAndWhiteSpace) {
  for (const Pair& pair : {
           Pair{"a comment", "int a;", "int a;  // the answer"},
           Pair{"a block comment", "int a;", "/* of\ntwo lines */ int/**/a;"},
           Pair{"a comment goes on over a continuation", "int a;", "// one \\\n int b;\nint a;"},
           Pair{"indentation", "if (a) b();", "  if(a)\n\t\tb ( ) ;\n\n"},
           Pair{"line ends of another system", "#define A 1\nint a;\n", "#define A 1\r\nint a;\r\n"},
           Pair{"the last line end", "#if A", "#if A\n"},
           Pair{"#line", "int a;\nint b;", "#line 7 \"x.cuh\"\nint a;\n  # line 9\nint b;"},
           Pair{"a continued macro", "#define A(x) x + 1\n", "#define A(x) \\\n  x + \\\n  1\n"},
           Pair{"a comment in a directive", "#define A 1\nb", "#define A /* one */ 1  // one\nb"},
           Pair{"blanks in a directive", "#define A(x) (x)", "# define A( x )   ( x )"},
           Pair{"a name over two lines", "alpha", "al\\\npha"},
       })
    EXPECT_EQ(tokens_of(pair.one), tokens_of(pair.other)) << pair.what;
}

TEST(Tokens, DependOnEverythingElse) {
  for (const Pair& pair : {
           Pair{"a name", "int a;", "int b;"},
           Pair{"two names or one", "a b", "ab"},
           Pair{"two operators or one", "a + +b", "a ++b"},
           Pair{"a shift or two", "a > > b", "a >> b"},
           Pair{"a number and a name", "1 u", "1u"},
           Pair{"an exponent", "1e-5", "1e -5"},
           Pair{"the end of a directive", "#define A\nb", "#define A b"},
           Pair{"a directive or its tokens", "# if A\n", "if A"},
           Pair{"parameters or a value", "#define A(x) x", "#define A (x) x"},
           Pair{"another directive than #line", "#pragma unroll\nint a;", "int a;"},
           Pair{"blanks in a string", "\"a b\"", "\"a  b\""},
           Pair{"what looks like a comment in a string", "\"a // b\"", "\"a // c\""},
           Pair{"what looks like the end of a string", R"(f("\"a // b"))", R"(f("\"a // c"))"},
           Pair{"a character", "'\"' + a // b", "'\"' + c // b"},
           Pair{"the prefix of a string", "L\"a\"", "L \"a\""},
           Pair{"lines of a raw string", "R\"(a\n// b)\"", "R\"(a\n)\""},
           Pair{"a raw string with a delimiter", "R\"x(a)\" )x\"", "R\"x(a)\"  )x\""},
           Pair{"after a raw string", "R\"(a\\)\" b", "R\"(a\\)\" c"},
           Pair{"a digit separator is no character", "1'000 // a'\n+ b", "1'000 // a'\n+ c"},
           Pair{"the order", "a b", "b a"},
       })
    EXPECT_NE(tokens_of(pair.one), tokens_of(pair.other)) << pair.what;
}

TEST(Tokens, AreOnePerLine) {
  EXPECT_EQ(tokens_of("#define A (1)\nx->y <<= .5f; // end"), "#\ndefine\nA\n (\n1\n)\n\nx\n->\ny\n<<=\n.5f\n;\n");
  EXPECT_EQ(tokens_of(""), "");
  EXPECT_EQ(tokens_of("// nothing"), "");
}

TEST(Tokens, AcceptUnfinishedSources) {
  for (const char* const source :
       {"/*", "/* *", "\"a", "\"a\\", "'", "R\"(a", "R\"", "#", "#define", "\\", "a\\\n", "1e", "/"})
    EXPECT_NO_THROW(tokens_of(source)) << source;
}

TEST(Tokens, DigestDependsOnlyOnTokens) {
  EXPECT_EQ(token_digest("int a;").size(), 32U);
  EXPECT_EQ(token_digest("int a;"), token_digest("int  a ; // a"));
  EXPECT_NE(token_digest("int a;"), token_digest("int b;"));
}

}  // namespace
}  // namespace tunesmith
