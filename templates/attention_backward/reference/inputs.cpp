// Inputs that test attention's backward pass: random numbers, and edge cases among them.

#include "templates/attention/reference/inputs.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/half.h"
#include "templates/attention/reference/reference.h"
#include "templates/attention/reference/user_scores.h"
#include "templates/attention_backward/op.h"
#include "templates/sampling.h"

namespace tunesmith {

using namespace attention_backward;

namespace {

const HostArray& named(std::span<const HostArray> arrays, const char* name) { return *attention::find(arrays, name); }

/// Replaces numbers that are not finite: NaN reaches every gradient of a tile that reads it, by definition or not.
void make_finite(const attention::Settings& settings, Side side, const HostArray& array) {
  attention::over_positions(settings, side, settings.tensor(side),
                            [&](std::int64_t, std::int64_t, std::int64_t, std::int64_t at) {
                              for (std::int64_t c = 0; c < settings.width(side); ++c)
                                if (!std::isfinite(read_element(settings.dtype, array.data, at + c)))
                                  write_element(settings.dtype, array.data, at + c, 0.5f);
                            });
}

void fill_dout(const Settings& settings, const HostArray& array, std::uint64_t seed, bool edge_cases) {
  const attention::Settings& forward = settings.forward;
  // Products with large values must not overflow f16.
  const double unit = edge_cases && forward.dtype == DType::f16 ? 0.125 : 1;
  std::uint64_t number = 0;
  attention::over_positions(
      forward, Side::o, settings.dout, [&](std::int64_t, std::int64_t position, std::int64_t, std::int64_t at) {
        double factor = unit;
        if (edge_cases && position % 29 == 4) factor = 0;
        if (edge_cases && position % 29 == 9) factor *= 4;
        for (std::int64_t c = 0; c < forward.head_dim_v; ++c)
          write_element(
              forward.dtype, array.data, at + c,
              static_cast<float>(bell(scramble(seed + number++)) * factor + (edge_cases && c % 8 == 5 ? unit / 2 : 0)));
      });
}

/// Fills the gradients that the results are added to.
void fill_gradients(const Settings& settings, std::span<const HostArray> arrays, std::uint64_t seed) {
  const attention::Settings& forward = settings.forward;
  std::uint64_t number = 0;
  const auto next = [&] { return static_cast<float>(bell(scramble(seed + number++))); };
  for (const GradientTensor& gradient : gradient_tensors) {
    if (gradient.tensor == &Settings::dout) continue;
    attention::over_positions(forward, gradient.side, settings.*gradient.tensor,
                              [&](std::int64_t, std::int64_t, std::int64_t, std::int64_t at) {
                                for (std::int64_t c = 0; c < forward.width(gradient.side); ++c)
                                  write_element(forward.dtype, named(arrays, gradient.name).data, at + c, next());
                              });
  }
  for (const char* name : {"dsinks", "dslopes"})
    if (const HostArray* const array = attention::find(arrays, name); array != nullptr)
      for (std::int64_t h = 0; h < forward.heads; ++h) write_element(DType::f32, array->data, h, next());
  for (const std::string& name : settings.daux.arrays()) {
    const HostArray& array = named(arrays, name.c_str());
    for (std::int64_t i = 0; i < array.info.elements(); ++i) write_element(DType::f32, array.data, i, next());
  }
}

/// Returns query number i of all, without scores.
attention::Reference::Query query_of(const attention::Settings& forward, const attention::Reference& reference,
                                     std::int64_t i) {
  attention::Reference::Query query;
  const std::int64_t most = forward.max_queries();
  query.batch = i / most / forward.heads;
  query.head = i / most % forward.heads;
  query.query = i % most;
  query.bounds = reference.sequence(query.batch);
  return query;
}

/// Writes o and lse of one query from its scores.
void write_exact(const Settings& settings, const attention::Reference& reference, std::span<const HostArray> arrays,
                 attention::Reference::Query& query) {
  const attention::Settings& forward = settings.forward;
  attention::Reference::Row row;
  reference.compute(query, row);
  const std::int64_t position = query.bounds.q_start + query.query;
  const std::int64_t at = forward.element(Side::o, query.batch, position, query.head);
  for (std::int64_t c = 0; c < forward.head_dim_v; ++c)
    write_element(forward.dtype, named(arrays, "o").data, at + c,
                  static_cast<float>(row.output[static_cast<std::size_t>(c)]));
  write_element(DType::f32, named(arrays, "lse").data, settings.row(query.batch, query.head, position),
                static_cast<float>(row.lse));
}

/// Writes average o and lse for normal, independent scores: for problems that are too large for the host.
void write_estimate(const Settings& settings, std::span<const HostArray> arrays, std::uint64_t seed,
                    const attention::Reference::Query& query) {
  const attention::Settings& forward = settings.forward;
  const double deviation = forward.scale * std::sqrt(static_cast<double>(forward.head_dim));
  const double keys = std::max<double>(static_cast<double>(query.bounds.keys), 1);
  double above_mean = std::min(deviation * deviation / 2, deviation * std::sqrt(2 * std::log(keys)));
  if (forward.softcap != 0) above_mean = std::min(above_mean, forward.softcap);
  const std::int64_t position = query.bounds.q_start + query.query;
  const std::int64_t row = settings.row(query.batch, query.head, position);
  const std::int64_t at = forward.element(Side::o, query.batch, position, query.head);
  for (std::int64_t c = 0; c < forward.head_dim_v; ++c)
    write_element(forward.dtype, named(arrays, "o").data, at + c,
                  static_cast<float>(bell(scramble(seed + static_cast<std::uint64_t>(at + c))) / std::sqrt(keys)));
  write_element(DType::f32, named(arrays, "lse").data, row, static_cast<float>(std::log(keys) + above_mean));
}

}  // namespace

void ParsedAttentionBackward::fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const {
  const attention::Settings& forward = settings_.forward;
  const bool edge_cases = kind == InputKind::edge_cases;
  attention::fill_inputs(forward, seed, edge_cases, arrays);
  if (edge_cases)
    for (const Side side : {Side::q, Side::k, Side::v}) make_finite(forward, side, arrays[static_cast<std::size_t>(side)]);
  fill_dout(settings_, named(arrays, "dout"), scramble(seed + 21), edge_cases);
  if (settings_.dlse)
    for (std::int64_t row = 0; row < settings_.rows(); ++row)
      write_element(DType::f32, named(arrays, "dlse").data, row,
                    static_cast<float>(bell(scramble(seed + 22 + static_cast<std::uint64_t>(row)))));

  if (settings_.accumulate) fill_gradients(settings_, arrays, scramble(seed + 24));

  constexpr std::int64_t affordable = 200'000'000;  // multiplications
  const std::int64_t queries = forward.batch * forward.heads * forward.max_queries();
  const std::int64_t work = std::max<std::int64_t>(forward.seq_kv, 1) * (forward.head_dim + forward.head_dim_v);
  const bool exact = edge_cases || queries <= affordable / work;
  const attention::Reference reference(forward, arrays);
  // Without user functions, which the host cannot evaluate: complete_inputs() adds them.
  const auto write_queries = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      attention::Reference::Query query = query_of(forward, reference, i);
      if (query.query >= query.bounds.queries) continue;
      if (exact) {
        reference.compute_scores(query);
        write_exact(settings_, reference, arrays, query);
      } else {
        write_estimate(settings_, arrays, seed + 23, query);
      }
    }
  };
  over_rows(queries, exact ? work : forward.head_dim_v, write_queries);
}

void ParsedAttentionBackward::complete_inputs(std::span<const HostArray> arrays, const Evaluate& evaluate) const {
  const attention::Settings& forward = settings_.forward;
  if (!forward.modified()) return;
  const attention::Reference reference(forward, arrays);
  const attention::UserScores user_scores(forward, arrays, evaluate);
  const std::int64_t all = forward.batch * forward.heads * forward.max_queries(), at_once = user_scores.rows_at_once();
  for (std::int64_t begin = 0; begin < all; begin += at_once) {
    std::vector<attention::Reference::Query> queries;
    for (std::int64_t i = begin; i < std::min(all, begin + at_once); ++i)
      if (attention::Reference::Query query = query_of(forward, reference, i); query.query < query.bounds.queries) {
        reference.compute_scores(query);
        queries.push_back(std::move(query));
      }
    user_scores.apply(queries);
    for (attention::Reference::Query& query : queries) write_exact(settings_, reference, arrays, query);
  }
}

}  // namespace tunesmith
