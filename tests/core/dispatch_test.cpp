// What a call's addresses say about its problem.

#include "tunesmith/dispatch.h"

#include <gtest/gtest.h>

#include "tunesmith/description.h"
#include "tunesmith/error.h"

namespace tunesmith {

struct AddArrays {
  const void* a = nullptr;
  const void* b = nullptr;
  void* y = nullptr;
  void* log = nullptr;
};

struct AddProblem {
  using Arrays = AddArrays;
  std::int64_t count = 1;
  std::int64_t a_alignment = 16, b_alignment = 16, y_alignment = 16;
  bool in_place = false, two = false;

  static constexpr std::string_view op() noexcept { return "add"; }
  bool operator==(const AddProblem&) const = default;
};

template <DescribedAs<AddProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const AddArrays& arrays, Visitor& v) {
  v.field("count", p.count, {.meaning = "elements", .range = {0}, .required = true});
  v.field("a_alignment", p.a_alignment, alignment_facts("bytes", DType::f32));
  v.field("b_alignment", p.b_alignment, alignment_facts("bytes", DType::f32));
  v.field("y_alignment", p.y_alignment, alignment_facts("bytes", DType::f32));
  v.field("in_place", p.in_place, {.meaning = "y is a"});
  v.option("two", p.two, {.meaning = "b is added"});
  v.array(arrays.a, {.name = "a", .shape = {size(p.count)}, .alignment = &p.a_alignment});
  v.array(arrays.b,
          {.name = "b", .shape = {size(p.count)}, .alignment = &p.b_alignment, .present = p.two, .enabled_by = &p.two});
  v.array(arrays.y, {.name = "y",
                     .role = Role::output,
                     .shape = {size(p.count)},
                     .alignment = &p.y_alignment,
                     .in_place_of = p.in_place ? "a" : "",
                     .in_place = &p.in_place,
                     .shares = arrays.a});
  v.array(arrays.log, {.name = "log", .role = Role::output, .shape = {fixed(1)}, .present = false});
}

namespace {

alignas(64) std::byte memory[256];

std::string rejection(const AddProblem& asked, const AddArrays& arrays) {
  try {
    const AddProblem problem = with_addresses(asked, arrays);
    AddressList list;
    describe(problem, arrays, list);
    return "accepted";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(WithAddresses, AlignmentsAndInPlaceComeFromTheAddresses) {
  const AddProblem asked{.count = 4, .in_place = true};
  const AddProblem apart = with_addresses(asked, {.a = memory + 8, .y = memory + 68});
  EXPECT_EQ(apart.a_alignment, 8);
  EXPECT_EQ(apart.y_alignment, 4);
  EXPECT_FALSE(apart.in_place);
  EXPECT_TRUE(with_addresses(asked, {.a = memory, .y = memory}).in_place);
}

TEST(WithAddresses, GivenArraysSwitchOptionsOnAndAbsentOnesLeaveNoTrace) {
  const AddProblem asked{.count = 4};
  EXPECT_EQ(with_addresses(asked, {.a = memory, .y = memory + 64}), asked);
  const AddProblem with = with_addresses(asked, {.a = memory, .b = memory + 36, .y = memory + 64});
  EXPECT_TRUE(with.two);
  EXPECT_EQ(with.b_alignment, 4);
}

TEST(WithAddresses, WithoutElementsAddressesDoNotCount) {
  const AddProblem none = with_addresses(AddProblem{.count = 0}, {.a = memory + 1, .y = memory + 1});
  EXPECT_EQ(none.a_alignment, 4);
  EXPECT_FALSE(none.in_place);
}

TEST(CheckAddresses, NamesWhatIsMissingMisalignedOrUnexpected) {
  const AddProblem asked{.count = 4};
  EXPECT_EQ(rejection(asked, {.a = memory, .y = memory + 64}), "accepted");
  EXPECT_EQ(rejection(asked, {.y = memory}), "a is a null pointer; expected device memory");
  EXPECT_NE(rejection(asked, {.a = memory + 2, .y = memory}).find("multiple of 4 bytes"), std::string::npos);
  EXPECT_EQ(rejection({.count = 4, .two = true}, {.a = memory, .y = memory + 64}),
            "b is a null pointer; expected device memory");
  EXPECT_NE(rejection(asked, {.a = memory, .y = memory + 64, .log = memory}).find("log is given"), std::string::npos);
  EXPECT_EQ(rejection({.count = 0}, {}), "accepted");
}

TEST(AddressLists, HoldPresentArraysInOrder) {
  AddProblem problem{.count = 4};
  const AddArrays arrays{.a = memory, .y = memory + 64};
  AddressList list;
  describe(problem, arrays, list);
  ASSERT_EQ(list.span().size(), 2u);
  EXPECT_EQ(list.span()[1], memory + 64);
  const AddArrays more{.a = memory, .b = memory + 32, .y = memory + 64};
  AddressList rejected;
  EXPECT_THROW(describe(problem, more, rejected), Error);  // b was not adopted
}

TEST(AddressLists, SayWhichArraysTheySelected) {
  const AddProblem problem{.count = 4};
  AddressList list;
  describe(problem, {.a = memory, .y = memory + 64}, list);
  EXPECT_EQ(list.selected(), 0b101u);
}

TEST(KeyWords, AreCountedAtCompileTime) {
  static_assert(key_words<AddProblem>() == 3);  // name, count, and one word of flags and addresses
}

std::vector<std::uint64_t> key_of(const AddProblem& problem, const AddArrays& arrays) {
  CallReader<key_words<AddProblem>()> call(problem.op());
  describe(problem, arrays, call);
  return {call.words().begin(), call.words().end()};
}

TEST(CountArrays, CountsAllOfAType) {
  static_assert(count_arrays<AddProblem>().described == 4);
  static_assert(count_arrays<AddProblem>().of_texts == 0);
}

TEST(CallReaders, ReadTheKeyFromFieldsAndAddresses) {
  const AddProblem asked{.count = 4};
  const AddArrays given{.a = memory, .y = memory + 64};
  const auto key = key_of(asked, given);
  EXPECT_EQ(key, key_of(asked, {.a = memory + 16, .y = memory + 128}));
  EXPECT_EQ(key, key_of({.count = 4, .a_alignment = 4}, given));  // the address replaces it
  EXPECT_NE(key, key_of({.count = 5}, given));
  EXPECT_NE(key, key_of({.count = 4, .two = true}, given));
  EXPECT_NE(key, key_of(asked, {.a = memory + 8, .y = memory + 64}));
  EXPECT_NE(key, key_of(asked, {.a = memory, .y = memory + 68}));
  EXPECT_NE(key, key_of(asked, {.a = memory, .y = memory}));
  EXPECT_NE(key, key_of(asked, {.a = memory, .b = memory + 32, .y = memory + 64}));
  EXPECT_NE(key, key_of(asked, {.a = memory, .y = memory + 64, .log = memory}));
  EXPECT_NE(key, key_of(asked, {.y = memory + 64}));
}

TEST(CallReaders, CollectAllAddresses) {
  CallReader<key_words<AddProblem>()> call(AddProblem::op());
  const AddProblem asked{.count = 4};
  describe(asked, {.a = memory, .y = memory + 64}, call);
  ASSERT_EQ(call.addresses().size(), 4u);
  EXPECT_EQ(call.addresses()[0], memory);
  EXPECT_EQ(call.addresses()[1], nullptr);
  EXPECT_EQ(call.addresses()[2], memory + 64);
  EXPECT_FALSE(call.has_text());
}

}  // namespace
}  // namespace tunesmith
