// User functions as fields of problems: printing and parsing, display, and keys.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "templates/render.h"
#include "tests/templates/attention/mods.h"
#include "tuner/select.h"
#include "tunesmith/attention.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using test::modified;

constexpr const char* fields_shape = "heads=4,seq_q=64,seq_kv=80,head_dim=16,dtype=f32";
const Op& attention() { return find_op("attention"); }

std::string scaled(const std::string& factor) {
  return "// aux: table:f32[heads*seq_kv]; window:i64=128\n"
         "__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) { return score * " +
         factor + "; }\n";
}

std::string rendered(const Problem& problem) {
  const ParsedProblemPtr parsed = attention().parse(problem);
  return render(*parsed, parsed->default_config(generic_device(parse_arch("sm_90a"))));
}

TEST(AttentionModFields, StringsRoundTrip) {
  Fields fields;
  fields.set("rows", std::int64_t{5});
  fields.set("text", std::string("a, b = 100 % c\n\t#line 1 \"x\"\r\n, ,%2C end"));
  fields.set("last", 0.5);
  EXPECT_EQ(parse_fields(fields.text(), "fields"), fields);
  EXPECT_EQ(fields.text().find('\n'), std::string::npos);
  EXPECT_EQ(Fields({{"a", std::string("x,%")}}).text(), "a=x%2C%25");
  EXPECT_EQ(Fields({{"a", std::string("bf16")}, {"b", std::int64_t{1}}}).short_text(), "a=bf16,b=1");
  const std::string shown = fields.short_text();
  EXPECT_EQ(shown.substr(0, 13), "rows=5,text=<");
  EXPECT_EQ(shown.size(), std::string("rows=5,text=<01234567>,last=0.5").size());
  for (const char* broken : {"a=%", "a=%1", "a=%zz"}) EXPECT_THROW((void)parse_fields(broken, "fields"), Error) << broken;
}

TEST(AttentionModFields, NormalizedProblemRoundTrips) {
  const Problem problem = modified(fields_shape, {{"score_mod", scaled("2")}, {"aux", "window : i64 = 7 ; more:u8[batch]"}});
  EXPECT_EQ(problem.fields.string("aux"), "table:f32[heads*seq_kv];window:i64=7;more:u8[batch]");
  EXPECT_EQ(attention().normalize(problem), problem);
  EXPECT_EQ(attention().normalize({"attention", parse_fields(problem.fields.text(), "problem")}), problem);
  std::string names;
  for (const ArrayInfo& array : attention().parse(problem)->arrays()) names += array.name + " ";
  EXPECT_EQ(names, "q k v table more o lse ");
  EXPECT_EQ(attention().parse(problem)->arrays()[3].shape, (std::vector<std::int64_t>{320}));
  // An empty source means no user function.
  EXPECT_EQ(modified(fields_shape, {{"score_mod", ""}, {"mask_mod", ""}}), modified(fields_shape, {}));
}

TEST(AttentionModFields, TypedProblemHasTheSameFields) {
  AttentionProblem typed{.heads = 4, .seq_q = 64, .seq_kv = 80, .head_dim = 16, .dtype = DType::f32};
  typed.score_mod = scaled("2");
  typed.aux = {{.name = "window", .dtype = DType::i64, .value = 7}, {.name = "more", .dtype = DType::u8, .length = 3}};
  const Problem general = attention().normalize(to_problem(typed));
  EXPECT_EQ(general, modified(fields_shape, {{"score_mod", scaled("2")}, {"aux", "window:i64=7;more:u8[3]"}}));
  AttentionProblem other = typed;
  EXPECT_EQ(other, typed);
  other.aux[0].value = 0.5;
  EXPECT_NE(other, typed);
}

TEST(AttentionModFields, KeysDependOnSourcesAndTypesButNotOnNumbers) {
  const auto key = [](const Problem& problem) { return attention().parse(problem)->key().problem_class; };
  const auto with = [](const std::string& factor, const std::string& aux) {
    return aux.empty() ? modified(fields_shape, {{"score_mod", scaled(factor)}})
                       : modified(fields_shape, {{"score_mod", scaled(factor)}, {"aux", aux}});
  };
  const Problem base = with("2", "");
  for (const char* aux : {"window:i64=256", "table:f32[1000]", "window:i64=seq_kv"}) {
    const Problem same = with("2", aux);
    EXPECT_EQ(key(same), key(base)) << aux;
    EXPECT_EQ(rendered(same), rendered(base)) << aux;
    EXPECT_NE(same.text(), base.text());
  }
  for (const Problem& other :
       {with("3", ""), with("2", "window:i32=128"), with("2", "more:i32=1"), modified(fields_shape, {})}) {
    EXPECT_NE(key(other), key(base));
    EXPECT_NE(rendered(other), rendered(base));
  }
  const std::string mask = "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) { return k % 2 == 0; }";
  EXPECT_NE(key(modified(fields_shape, {{"mask_mod", mask}})),
            key(modified(fields_shape, {{"score_mod", scaled("2")}, {"mask_mod", mask}})));
  const auto record_key = [](const Problem& problem) {
    return tuning_key(*attention().parse(problem), generic_device(parse_arch("sm_90a")), TemplateSet::embedded())
        .problem_class;
  };
  EXPECT_NE(record_key(base), record_key(with("3", "")));
  // Comments of the function are no part of the key.
  EXPECT_EQ(record_key(base), record_key(modified(fields_shape, {{"score_mod", scaled("2") + "// why two\n"}})));
}

TEST(AttentionModFields, ParametersHoldNumbersAndAddressesOfAux) {
  const Problem problem = modified(fields_shape, {{"score_mod", scaled("2")}, {"aux", "last:i32=seq_kv-1"}});
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  const LaunchPlan plan =
      attention().parse(problem)->launch_plan(attention().parse(problem)->default_config(device), device);
  const auto table = std::ranges::find(plan.pointers, "table", &LaunchPlan::Pointer::array);
  ASSERT_NE(table, plan.pointers.end());
  EXPECT_EQ(table->extent_bytes, 320 * 4);
  EXPECT_EQ(table->alignment, 4U);
  const auto word = [&](std::size_t slot) {
    std::uint64_t value = 0;
    std::memcpy(&value, plan.params.data() + table->offset + 8 * slot, sizeof value);
    return value;
  };
  EXPECT_EQ(word(0), 0U);
  EXPECT_EQ(word(1), 128U);
  EXPECT_EQ(word(2), 79U);
}

TEST(AttentionModFields, NothingChangesWithoutAUserFunction) {
  const std::string source = rendered(modified(fields_shape, {}));
  EXPECT_NE(source.find("tunesmith::NoModification, config"), std::string::npos);
  EXPECT_EQ(source.find("user_text"), std::string::npos);
}

TEST(AttentionModFields, VerificationProblemShrinksAuxArrays) {
  const Problem large = modified("batch=1,heads=32,seq_q=4096,head_dim=16,dtype=f32", {{"score_mod", scaled("2")}});
  const Problem small = attention().parse(large)->verification_problem();
  EXPECT_EQ(attention().normalize(small).fields.integer("batch"), 1);
  for (const ArrayInfo& array : attention().parse(small)->arrays())
    if (array.name == "table") {
      EXPECT_EQ(array.shape[0], small.fields.integer("heads") * small.fields.integer("seq_kv"));
    }
  // The tuner verifies each configuration of the large problem with the small one.
  const Config config = attention().parse(large)->default_config(generic_device(parse_arch("sm_90a")));
  EXPECT_EQ(render(*attention().parse(small), config), render(*attention().parse(large), config));
}

}  // namespace
}  // namespace tunesmith
