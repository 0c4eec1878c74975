#include "tests/templates/attention/mods.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "templates/half.h"

namespace tunesmith::test {

std::string mod_example(const std::string& name) {
  std::ifstream stream(std::string(TUNESMITH_SOURCE_DIR) + "/api/examples/mods/" + name + ".cu");
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw std::runtime_error("the example " + name + " cannot be read");
  return text.str();
}

Problem modified(const std::string& fields, const std::vector<std::pair<std::string, std::string>>& texts) {
  Problem problem{"attention", parse_fields(fields, "problem")};
  for (const auto& [field, text] : texts) problem.fields.set(field, text);
  return find_op("attention").normalize(problem);
}

AttentionArraysOnHost::AttentionArraysOnHost(const Problem& problem, std::uint64_t seed, InputKind kind) {
  const Op& op = find_op(problem.op);
  for (const ArrayInfo& info : op.parse(problem)->arrays()) {
    memory_.emplace_back(static_cast<std::size_t>(info.extent_bytes()), std::byte{0xff});
    arrays_.push_back({info, memory_.back().data()});
  }
  op.parse(problem)->fill_inputs(seed, kind, arrays_);
}

const HostArray& AttentionArraysOnHost::operator[](std::string_view name) const {
  for (const HostArray& array : arrays_)
    if (array.info.name == name) return array;
  throw std::runtime_error("no array " + std::string(name));
}

double AttentionArraysOnHost::real(std::string_view name, std::int64_t index) const {
  const HostArray& array = (*this)[name];
  return read_element(array.info.dtype, array.data, index);
}

std::int64_t AttentionArraysOnHost::integer(std::string_view name, std::int64_t index) const {
  const HostArray& array = (*this)[name];
  return read_integer(array.info.dtype, array.data, index);
}

double largest_difference(const Problem& problem, const AttentionArraysOnHost& arrays, const ScoreMod& score_mod,
                          const MaskMod& mask_mod) {
  const auto size = [&](const char* field) { return problem.fields.integer(field); };
  const std::int64_t batch = size("batch"), heads = size("heads"), kv_heads = size("kv_heads"), queries = size("seq_q"),
                     keys = size("seq_kv"), width = size("head_dim");
  double worst = 0;
  const auto compare = [&](double found, double expected) {
    const bool same = found == expected || (std::isnan(found) && std::isnan(expected));
    const double error = std::fabs(found - expected);
    worst = std::max(worst, same ? 0.0 : std::isnan(error) ? INFINITY : error);
  };
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t q = 0; q < queries; ++q) {
        const std::int64_t g = h / (heads / kv_heads);
        const auto key_at = [&](std::int64_t k) { return ((b * keys + k) * kv_heads + g) * width; };
        std::vector<double> scores(static_cast<std::size_t>(keys), -INFINITY), output(static_cast<std::size_t>(width), 0.0);
        const std::int64_t q_at = ((b * queries + q) * heads + h) * width;
        double top = -INFINITY, sum = 0;
        for (std::int64_t k = 0; k < keys; ++k) {
          if (mask_mod && !mask_mod(b, h, q, k)) continue;
          double dot = 0;
          for (std::int64_t d = 0; d < width; ++d) dot += arrays.real("q", q_at + d) * arrays.real("k", key_at(k) + d);
          double& score = scores[static_cast<std::size_t>(k)];
          score = dot / std::sqrt(static_cast<double>(width));
          if (score_mod) score = score_mod(score, b, h, q, k);
          top = std::max(top, score);
        }
        for (std::int64_t k = 0; k < keys && top != -INFINITY; ++k) {
          const double weight = std::exp(scores[static_cast<std::size_t>(k)] - top);
          sum += weight;
          for (std::int64_t d = 0; d < width; ++d)
            output[static_cast<std::size_t>(d)] += weight * arrays.real("v", key_at(k) + d);
        }
        for (std::int64_t d = 0; d < width; ++d)
          compare(arrays.real("o", q_at + d), sum == 0 ? 0 : output[static_cast<std::size_t>(d)] / sum);
        compare(arrays.real("lse", (b * heads + h) * queries + q), sum == 0 ? -INFINITY : top + std::log(sum));
      }
  return worst;
}

}  // namespace tunesmith::test
