#include "tests/templates/attention/mods.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string_view>

#include "core/half.h"

namespace tunesmith {

// api/examples/mods, embedded: tests may run where there is no checkout.
std::span<const std::pair<std::string_view, std::string_view>> attention_mod_examples();

}  // namespace tunesmith

namespace tunesmith::test {

std::string mod_example(const std::string& name) {
  for (const auto& [file, text] : attention_mod_examples())
    if (file == name + ".cu") return std::string(text);
  throw std::runtime_error("there is no example " + name);
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

const char* const trigonometry_text = R"(
__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {
  const float place = static_cast<float>(53 * q + k + 1);
  float sine, cosine;
  sincosf(place * 321.125f, &sine, &cosine);
  return sinf(place * 1e35f) + cosf(place * 777.77f) + 0.01f * tanf(place * 54321.5f) + sin(place * 0.125f) +
         cos(-place) + tan(place * 5e-4f) + sine * cosine;
}
)";

double trigonometry_score(double, std::int64_t, std::int64_t, std::int64_t q, std::int64_t k) {
  const auto place = static_cast<float>(53 * q + k + 1);
  const auto product = [&](float factor) { return static_cast<double>(place * factor); };  // rounded as there
  return std::sin(product(1e35f)) + std::cos(product(777.77f)) + 0.01 * std::tan(product(54321.5f)) +
         std::sin(product(0.125f)) + std::cos(product(-1)) + std::tan(product(5e-4f)) +
         std::sin(product(321.125f)) * std::cos(product(321.125f));
}

}  // namespace tunesmith::test
