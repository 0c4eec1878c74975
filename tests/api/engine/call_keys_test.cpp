// Keys of one-shot calls and generic forms of typed problems: both depend on every field that a problem's description has,
// and keys on every address.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <vector>

#include "tests/api/engine/call_key_of.h"
#include "tunesmith/tunesmith.h"

namespace tunesmith {
namespace {

using test::key_of;

/// Changes one field of a description: the `wanted`-th, in one of several ways.
class FieldChange {
 public:
  static constexpr int ways = 2;
  FieldChange(int wanted, int way) : wanted_(wanted), way_(way) {}

  template <typename Member>
  void field(std::string_view name, Member& member, const FieldFacts& facts) {
    if (fields_++ != wanted_) return;
    name_ = name;
    if constexpr (std::is_same_v<Member, bool>) {
      changed_ = way_ == 0;
      member = member != changed_;
    } else if constexpr (std::is_enum_v<Member>) {
      member = static_cast<Member>((static_cast<int>(member) + 1 + way_) % 3);
      changed_ = true;
    } else if constexpr (std::is_integral_v<Member>) {
      is_alignment_ = facts.cap != 0;
      member = way_ == 0 ? 2 * member + 2 : 4 * member + 4;
      changed_ = true;
    } else if constexpr (std::is_same_v<Member, double>) {
      member += way_ == 0 ? 0.5 : 0.25;
      changed_ = true;
    } else if constexpr (requires { member.has_value(); }) {
      is_alignment_ = facts.cap != 0;
      if constexpr (std::is_enum_v<typename Member::value_type>)
        member = static_cast<typename Member::value_type>(way_);
      else
        member = static_cast<typename Member::value_type>(way_ == 0 ? 0 : 16);
      changed_ = true;
    }
  }
  template <typename Member>
  void option(std::string_view name, Member& member, const FieldFacts& facts) {
    field(name, member, facts);
  }
  void array(const void* address, const ArrayFacts& facts) {
    if (facts.alignment != nullptr) aligned_.push_back(address);
  }

  int fields() const { return fields_; }
  bool changed() const { return changed_; }
  bool is_alignment() const { return is_alignment_; }  ///< which addresses replace
  const std::string& name() const { return name_; }
  const std::vector<const void*>& aligned() const { return aligned_; }

 private:
  int wanted_, way_, fields_ = 0;
  bool changed_ = false, is_alignment_ = false;
  std::string name_;
  std::vector<const void*> aligned_;
};

class DistinctKeys {
 public:
  void add(const CallKey& key, const std::string& of) {
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      EXPECT_FALSE(key == keys_[i]) << of << " and " << names_[i];
      EXPECT_NE(key.hash(), keys_[i].hash()) << of << " and " << names_[i];  // 64 bits of some hundred keys
    }
    keys_.push_back(key);
    names_.push_back(of);
  }

 private:
  std::vector<CallKey> keys_;
  std::vector<std::string> names_;
};

template <typename Typed>
class CallsOf : public testing::Test {};
using Problems = testing::Types<SoftmaxProblem, SoftmaxBackwardProblem, CrossEntropyProblem, CrossEntropyBackwardProblem,
                                CrossEntropyShardProblem, CrossEntropyCombineProblem, AttentionProblem,
                                AttentionBackwardProblem, KvAppendProblem, RmsNormProblem, RowProgramProblem>;
TYPED_TEST_SUITE(CallsOf, Problems);

TYPED_TEST(CallsOf, KeysAndGenericFormsDependOnEveryField) {
  const typename TypeParam::Arrays none{};
  const TypeParam plain{};
  DistinctKeys keys;
  keys.add(key_of(plain, none), "no change");
  const Fields plain_fields = to_problem(plain).fields;
  for (int field = 0, fields = 1; field < fields; ++field)
    for (int way = 0; way < FieldChange::ways; ++way) {
      TypeParam problem = plain;
      FieldChange change(field, way);
      describe(problem, none, change);
      fields = change.fields();
      if (!change.changed()) continue;
      const Fields given = to_problem(problem).fields;
      EXPECT_NE(given, plain_fields) << change.name();
      EXPECT_TRUE(given.contains(change.name()) || plain_fields.contains(change.name())) << change.name();
      if (change.is_alignment()) {
        EXPECT_EQ(key_of(problem, none), key_of(plain, none)) << change.name();
      } else {
        keys.add(key_of(problem, none), change.name());
      }
    }
}

TYPED_TEST(CallsOf, KeysDependOnEveryAddress) {
  using Arrays = typename TypeParam::Arrays;
  if constexpr (sizeof(Arrays) % sizeof(void*) == 0 && std::is_trivially_copyable_v<Arrays>) {
    constexpr std::size_t count = sizeof(Arrays) / sizeof(void*);
    alignas(16) static std::byte memory[16 * (count + 1)];
    std::array<void*, count> addresses{};
    for (std::size_t i = 0; i < count; ++i) addresses[i] = memory + 16 * i;
    const auto arrays = [&] { return std::bit_cast<Arrays>(addresses); };
    const TypeParam problem{};
    TypeParam described = problem;
    FieldChange reader(-1, 0);
    describe(described, arrays(), reader);
    DistinctKeys keys;
    keys.add(key_of(problem, arrays()), "all addresses");
    for (std::size_t i = 0; i < count; ++i) {
      void* const before = addresses[i];
      addresses[i] = nullptr;
      keys.add(key_of(problem, arrays()), "without array " + std::to_string(i));
      for (const int offset : {2, 4, 8}) {
        if (std::ranges::find(reader.aligned(), before) == reader.aligned().end()) continue;
        addresses[i] = static_cast<std::byte*>(before) + offset;
        keys.add(key_of(problem, arrays()), "array " + std::to_string(i) + " at " + std::to_string(offset));
      }
      addresses[i] = before;
    }
  }
}

TEST(CallKeys, DependOnTheOperation) {
  SoftmaxProblem softmax;
  DistinctKeys keys;
  keys.add(key_of(softmax, {}), "softmax");
  softmax.logarithm = true;
  keys.add(key_of(softmax, {}), "log_softmax");
  keys.add(key_of(CrossEntropyProblem{}, {}), "cross_entropy");
  keys.add(key_of(CrossEntropyBackwardProblem{}, {}), "cross_entropy_backward");
  EXPECT_EQ(to_problem(softmax).op, "log_softmax");
}

}  // namespace
}  // namespace tunesmith
