#include "templates/attention/source/options.h"

#include "templates/source_text.h"

namespace tunesmith::attention {
namespace {

constexpr std::array<Option, 17> options{{
    {[](const Settings& s) -> std::int64_t { return s.bounded_left(); }, "bounded_left"},
    {[](const Settings& s) -> std::int64_t { return s.bounded_right(); }, "bounded_right"},
    {.value = [](const Settings& s) -> std::int64_t { return s.window_left || s.window_right; }, .head = "sliding window"},
    {.value = [](const Settings& s) -> std::int64_t { return s.softcap != 0; },
     .flag = "softcap",
     .key = ",softcap",
     .head = "soft cap",
     .features = {{{"Cap", "SoftCap"}, {"CapSteps", "SoftCapSteps", &FeatureUse::steps}}}},
    {.value = [](const Settings& s) -> std::int64_t { return s.alibi; },
     .flag = "alibi",
     .key = ",alibi",
     .head = "ALiBi",
     .features = {{{"Bias", "Alibi"}, {"BiasSteps", "AlibiSteps", &FeatureUse::steps}}}},
    {.value = [](const Settings& s) -> std::int64_t { return s.sinks; },
     .flag = "sinks",
     .key = ",sinks",
     .head = "sinks",
     .features = {{{"Sink", "Sinks", &FeatureUse::sinks}}}},
    {.value = [](const Settings& s) -> std::int64_t { return s.varlen; },
     .flag = "varlen",
     .key = ",varlen",
     .head = "packed sequences"},
    {.value = [](const Settings& s) -> std::int64_t { return s.kv_lengths; },
     .flag = "kv_lengths",
     .key = ",lengths",
     .head = "lengths of keys in device memory"},
    {.value = [](const Settings& s) { return s.page_size; },
     .flag = "page_size",
     .key = ",page=",
     .head = "keys in pages of ",
     .any = "number of pages",
     .is_number = true},
    {.value = [](const Settings& s) -> std::int64_t { return s.kv_dtype == DType::e4m3; },
     .flag = "e4m3",
     .key = ",kv=e4m3",
     .head = "e4m3 keys and values"},
    {.value = [](const Settings& s) -> std::int64_t { return s.kv_scales != KvScales::none && !s.has_row_scales(); },
     .flag = "scaled",
     .key = ",scaled",
     .head = "scales of key heads"},
    {.value = [](const Settings& s) -> std::int64_t { return s.has_row_scales(); },
     .flag = "rows_scaled",
     .key = ",rows_scaled",
     .head = "scales of keys' and values' rows"},
    {.value = [](const Settings& s) -> std::int64_t { return s.dropout > 0; },
     .flag = "dropout",
     .key = ",dropout",
     .head = "dropout",
     .any = "probability and seed of dropout",
     .features = {{{"Dropped", "DroppedPairs"}}}},
    {.value = [](const Settings& s) { return s.split_keys; },
     .flag = "split_keys",
     .key = ",split_keys=",
     .head = "splits of keys in steps of ",
     .is_number = true},
    {.value = [](const Settings& s) -> std::int64_t { return !s.score_mod.empty(); }, .flag = "score_mod"},
    {.value = [](const Settings& s) -> std::int64_t { return !s.mask_mod.empty(); }, .flag = "mask_mod"},
    {.value = [](const Settings& s) -> std::int64_t { return s.modified(); },
     .head = "user functions",
     .any = "user arrays and numbers"},
}};

}  // namespace

std::span<const Option> all_options() { return options; }

std::string options_key(const Settings& settings) {
  std::string text;
  for (const Option& option : options)
    if (const std::int64_t value = option.value(settings); value != 0)
      text += option.key + (option.is_number ? std::to_string(value) : "");
  return text;
}

std::string options_flags(const Settings& settings) {
  std::string text;
  for (const Option& option : options)
    if (const std::int64_t value = option.value(settings); value != 0 && *option.flag != '\0')
      text += option.is_number ? member(option.flag, value) : member(option.flag, true);
  return text;
}

}  // namespace tunesmith::attention
