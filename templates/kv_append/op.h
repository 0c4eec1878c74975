#pragma once
// kv_append. See tunesmith/kv_append.h for what it computes.

#include "templates/config_values.h"
#include "templates/described_op.h"
#include "templates/typed_problem.h"
#include "tunesmith/kv_append.h"

namespace tunesmith {

enum class KvAppendVariant : std::uint8_t { rows };
template <>
inline constexpr std::array<std::string_view, 1> enum_names<KvAppendVariant>{"rows"};

struct KvAppendConfig {
  KvAppendVariant variant = KvAppendVariant::rows;
  int threads = 128;

  static KvAppendConfig parse(const Config& config);
  Config to_config() const;
  bool operator==(const KvAppendConfig&) const = default;
};

class ParsedKvAppend final : public TypedProblem<KvAppendConfig> {
 public:
  ParsedKvAppend(const Op& op, const KvAppendProblem& problem) : TypedProblem(op, problem), typed_(problem) {}

  static std::vector<std::string> templates() { return {"kv_append", "device/float8.cuh"}; }
  KeyParts key() const override;
  Cost cost() const override;
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override;
  Problem verification_problem() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  KvAppendConfig read(const Config& config) const override { return KvAppendConfig::parse(config); }
  KvAppendConfig default_of(const DeviceInfo&) const override { return {}; }
  std::string why_invalid_of(const DeviceInfo& device, const KvAppendConfig& config) const override;
  SourceParts parts_of(const KvAppendConfig& config) const override;
  LaunchPlan plan_of(const KvAppendConfig& config, const DeviceInfo& device) const override;

  const KvAppendProblem typed_;
};

inline std::string_view summary_of(const KvAppendProblem&) noexcept {
  return "writes keys and values to a KV cache, after normalization, rotary embedding and quantization";
}
std::vector<FieldInfo> config_fields_of(const KvAppendProblem&);
/// Throws Error(invalid_argument) for fields that contradict each other.
void complete(KvAppendProblem& problem);

using KvAppendOp = DescribedOp<KvAppendProblem, ParsedKvAppend>;

}  // namespace tunesmith
