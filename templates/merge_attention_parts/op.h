#pragma once
// merge_attention_parts. See tunesmith/merge_attention_parts.h for what it computes.

#include "templates/config_values.h"
#include "templates/described_op.h"
#include "templates/typed_problem.h"
#include "tunesmith/merge_attention_parts.h"

namespace tunesmith {

enum class MergePartsVariant : std::uint8_t { rows };
template <>
inline constexpr std::array<std::string_view, 1> enum_names<MergePartsVariant>{"rows"};

struct MergePartsConfigValues {
  MergePartsVariant variant = MergePartsVariant::rows;
  int threads = 128;
  int together = 4;

  static MergePartsConfigValues parse(const Config& config);
  Config to_config() const;
  bool operator==(const MergePartsConfigValues&) const = default;
};

class ParsedMergeParts final : public TypedProblem<MergePartsConfigValues> {
 public:
  ParsedMergeParts(const Op& op, const MergePartsProblem& problem) : TypedProblem(op, problem), typed_(problem) {}

  static std::vector<std::string> templates() { return {"merge_attention_parts"}; }
  KeyParts key() const override;
  Cost cost() const override;
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override;
  Problem verification_problem() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  MergePartsConfigValues read(const Config& config) const override { return MergePartsConfigValues::parse(config); }
  MergePartsConfigValues default_of(const DeviceInfo&) const override;
  std::string why_invalid_of(const DeviceInfo& device, const MergePartsConfigValues& config) const override;
  SourceParts parts_of(const MergePartsConfigValues& config) const override;
  LaunchPlan plan_of(const MergePartsConfigValues& config, const DeviceInfo& device) const override;

  std::int64_t rows() const noexcept { return typed_.batch * typed_.heads * typed_.seq_q; }
  /// Whether lse has the rows in another order than o.
  bool by_head() const noexcept;
  /// Returns the elements of an access: at most 16 bytes of o_parts, of which all rows start at a multiple.
  std::int64_t vector() const noexcept;
  /// Returns the lanes of a row, as PartLanes in merge_attention_parts.cuh has them.
  std::int64_t lanes() const noexcept;

  const MergePartsProblem typed_;
};

inline std::string_view summary_of(const MergePartsProblem&) noexcept {
  return "o and lse of attention over all keys, from those over parts of the keys";
}
std::vector<FieldInfo> config_fields_of(const MergePartsProblem&);
/// Replaces strides that no two parts are apart by. Throws Error(invalid_argument) if an array has too many elements.
void complete(MergePartsProblem& problem);

using MergePartsOp = DescribedOp<MergePartsProblem, ParsedMergeParts>;

}  // namespace tunesmith
