#include "templates/attention/reference/user_scores.h"

#include <cmath>

namespace tunesmith::attention {
namespace {

bool same(double a, double b) noexcept { return a == b || (std::isnan(a) && std::isnan(b)); }

void take(Reference::Query& query, std::size_t at, double low, double middle, double high) {
  if (std::isfinite(low) && std::isfinite(middle) && std::isfinite(high)) {
    // The function's own arithmetic, which another kernel may fuse differently.
    const double own = (std::fabs(middle) + std::fabs(query.scores[at])) * 0x1p-22;
    query.errors[at] = std::max(std::fabs(low - middle), std::fabs(high - middle)) + own;
  } else if (!same(low, middle) || !same(high, middle)) {
    query.undecided = true;
  }
  query.scores[at] = middle;
}

}  // namespace

UserScores::UserScores(const Settings& settings, std::span<const HostArray> arrays, const Evaluate& evaluate)
    : settings_(settings), evaluate_(evaluate) {
  for (const Aux& aux : settings.aux)
    if (aux.is_array) arrays_.push_back(*find(arrays, aux.name));
}

UserScores::Results UserScores::evaluate(ModificationEntry entry, std::span<const Reference::Query> queries) const {
  return evaluate([&](std::int64_t rows, std::int64_t keys) { return modification_plan(settings_, entry, rows, keys); },
                  false, queries);
}

UserScores::Results UserScores::evaluate(const std::function<LaunchPlan(std::int64_t, std::int64_t)>& plan_of,
                                         bool has_elements, std::span<const Reference::Query> queries) const {
  const auto rows = static_cast<std::int64_t>(3 * queries.size());
  Results results;
  std::size_t& keys = results.keys;
  for (const Reference::Query& query : queries) keys = std::max(keys, query.scores.size());
  if (keys == 0) return results;
  std::vector<std::int32_t> places;
  std::vector<float>& scores = results.values;
  scores.resize(static_cast<std::size_t>(rows) * keys);
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    const Reference::Query& query = queries[row / 3];
    for (const std::int64_t word :
         {query.batch, query.head, query.query, query.first_key, static_cast<std::int64_t>(query.scores.size())})
      places.push_back(static_cast<std::int32_t>(word));
    for (std::size_t j = 0; j < query.scores.size(); ++j) {
      const double score = query.scores[j];
      const double shift = std::isfinite(score) ? static_cast<double>(static_cast<int>(row % 3) - 1) * query.errors[j] : 0;
      scores[row * keys + j] = static_cast<float>(score + shift);
    }
  }
  std::vector<HostArray> arrays = arrays_;
  const std::int64_t width = 5, length = static_cast<std::int64_t>(keys);
  arrays.push_back({{.name = "places", .input = true, .dtype = DType::i32, .shape = {rows, width}, .strides = {width, 1}},
                    reinterpret_cast<std::byte*>(places.data())});
  arrays.push_back({{.name = "scores", .input = true, .output = true, .shape = {rows, length}, .strides = {length, 1}},
                    reinterpret_cast<std::byte*>(scores.data())});
  if (has_elements) {
    results.elements.resize(scores.size());
    arrays.push_back(
        {{.name = "elements", .output = true, .dtype = DType::i64, .shape = {rows, length}, .strides = {length, 1}},
         reinterpret_cast<std::byte*>(results.elements.data())});
  }
  evaluate_(plan_of(rows, length), arrays);
  return results;
}

void UserScores::apply(std::span<Reference::Query> queries) const {
  const Results results = evaluate(ModificationEntry::scores, queries);
  for (std::size_t i = 0; i < queries.size(); ++i)
    for (std::size_t j = 0; j < queries[i].scores.size(); ++j) {
      const float* const low = results.at(i, j);
      take(queries[i], j, low[0], low[results.keys], low[2 * results.keys]);
    }
}

std::vector<std::vector<Rounded>> UserScores::derivatives(std::span<const Reference::Query> queries) const {
  const Results results = evaluate(ModificationEntry::derivatives, queries);
  std::vector<std::vector<Rounded>> all(queries.size());
  for (std::size_t i = 0; i < queries.size(); ++i)
    for (std::size_t j = 0; j < queries[i].scores.size(); ++j) {
      const float* const low = results.at(i, j);
      const double middle = low[results.keys];
      // The function's own arithmetic, as for scores; derivatives of bounded functions are differences of numbers around 1.
      const double own = (1 + std::fabs(middle)) * 0x1p-20;
      all[i].push_back({middle, std::max(std::fabs(low[0] - middle), std::fabs(low[2 * results.keys] - middle)) + own});
    }
  return all;
}

}  // namespace tunesmith::attention
