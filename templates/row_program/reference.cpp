// SCRATCH
#include <cmath>

#include "templates/half.h"
#include "templates/row/check.h"
#include "templates/row_program/op.h"
#include "templates/row_program/operations.h"
#include "templates/row_program/rounding.h"
namespace tunesmith {
using namespace row_program;
namespace {
struct Rowed {
  std::vector<std::vector<double>> v;
};
}  // namespace
CheckResult ParsedRowProgram::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  const Program& p = program_;
  const std::int64_t C = typed_.cols, R = typed_.rows;
  const std::vector<double> numbers = numbers_of(typed_, p);
  const int G = std::max(p.group, 1);
  CheckResult result;
  result.error_unit = "ULP";
  result.allowed_error = 64;
  result.total_rows = R;
  auto read = [&](std::size_t a, Kind k, std::int64_t r, std::int64_t c) {
    const auto& h = arrays[a];
    std::int64_t i = k == Kind::full ? r * h.info.strides[0] + c : k == Kind::col ? c : k == Kind::row ? r : 0;
    return read_element(h.info.dtype, h.data, i);
  };
  for (std::int64_t r = 0; r < R && r < max_rows; ++r, ++result.checked_rows) {
    std::vector<std::vector<double>> v(p.nodes.size());
    std::vector<std::vector<std::vector<double>>> red(p.reductions.size());
    for (std::size_t n = 0; n < p.nodes.size(); ++n) {
      const Node& o = p.nodes[n];
      const std::int64_t len = o.kind == Kind::full || o.kind == Kind::col ? C : o.kind == Kind::group ? C / G : 1;
      v[n].resize(static_cast<std::size_t>(len));
      for (std::int64_t c = 0; c < len; ++c) {
        auto at = [&](int m) {
          const auto& x = v[static_cast<std::size_t>(m)];
          const Kind k = p.nodes[static_cast<std::size_t>(m)].kind;
          if (k == Kind::full || k == Kind::col) return x[static_cast<std::size_t>(c)];
          if (k == Kind::group) return x[static_cast<std::size_t>(o.kind == Kind::group ? c : c / G)];
          return x[0];
        };
        double& out = v[n][static_cast<std::size_t>(c)];
        switch (o.operation) {
          case Operation::constant: out = static_cast<float>(o.value); break;
          case Operation::input: out = read(static_cast<std::size_t>(o.index), o.kind, r, c); break;
          case Operation::number: out = static_cast<float>(numbers[static_cast<std::size_t>(o.index)]); break;
          case Operation::row_index: out = static_cast<double>(r); break;
          case Operation::col_index: out = static_cast<double>(c); break;
          case Operation::rows: out = static_cast<double>(R); break;
          case Operation::cols: out = static_cast<double>(C); break;
          case Operation::round_to:
            out = o.type == Type::f32 ? at(o.operands[0]) : round_to_type(o.type, at(o.operands[0]));
            break;
          case Operation::reduced: {
            const Reduction& q = p.reductions[static_cast<std::size_t>(o.index)];
            const std::int64_t b = q.grouped ? c * G : 0, e = q.grouped ? b + G : C;
            auto term = [&](std::size_t k, std::int64_t j) {
              const auto& x = v[static_cast<std::size_t>(q.operands[k])];
              return x[x.size() == 1 ? 0 : static_cast<std::size_t>(j)];
            };
            double s = 0, mx = -INFINITY, mn = INFINITY;
            std::int64_t imx = b, imn = b, cnt = 0;
            bool nan = false, any = false, all = true;
            for (std::int64_t j = b; j < e; ++j) {
              double t = term(0, j);
              s += t;
              if (t != t) {
                if (!nan) imx = imn = j;
                nan = true;
              }
              if (!nan) {
                if (t > mx) imx = j;
                if (t < mn) imn = j;
              }
              mx = std::fmax(mx, t);
              mn = std::fmin(mn, t);
              cnt += t != 0;
              any |= t != 0;
              all &= t != 0;
            }
            if (nan) mx = mn = NAN;
            const double n_ = static_cast<double>(e - b);
            switch (q.reducer) {
              case Reducer::sum: out = s; break;
              case Reducer::mean: out = s / n_; break;
              case Reducer::max: out = mx; break;
              case Reducer::min: out = mn; break;
              case Reducer::lse: {
                double z = 0;
                for (std::int64_t j = b; j < e; ++j) z += std::exp(term(0, j) - mx);
                out = o.part == 0         ? (std::isfinite(mx) ? mx + std::log(z) : mx)
                      : o.part == 1       ? mx
                      : std::isfinite(mx) ? z
                                          : NAN;
                break;
              }
              case Reducer::moments: {
                double m = s / n_, z = 0;
                for (std::int64_t j = b; j < e; ++j) z += (term(0, j) - m) * (term(0, j) - m);
                out = o.part == 0 ? m : z / n_;
                break;
              }
              case Reducer::argmax: out = static_cast<double>(imx); break;
              case Reducer::argmin: out = static_cast<double>(imn); break;
              case Reducer::any: out = any; break;
              case Reducer::all: out = all; break;
              case Reducer::count: out = static_cast<double>(cnt); break;
              case Reducer::custom: {
                const Monoid& m = p.monoids[static_cast<std::size_t>(q.monoid)];
                auto acc = m.identity;
                for (std::int64_t j = b; j < e; ++j) {
                  std::vector<double> x(m.nodes.size());
                  for (std::size_t i = 0; i < m.nodes.size(); ++i) {
                    const Node& w = m.nodes[i];
                    if (w.operation == Operation::parameter)
                      x[i] = static_cast<std::size_t>(w.index) < acc.size()
                                 ? acc[static_cast<std::size_t>(w.index)]
                                 : term(static_cast<std::size_t>(w.index) - acc.size(), j);
                    else if (w.operation == Operation::constant)
                      x[i] = w.value;
                    else {
                      std::array<double, 3> a{};
                      for (std::size_t k = 0; k < 3; ++k)
                        if (w.operands[k] >= 0) a[k] = x[static_cast<std::size_t>(w.operands[k])];
                      x[i] = row_program::apply(w.operation, a);
                    }
                  }
                  for (std::size_t i = 0; i < acc.size(); ++i) acc[i] = x[static_cast<std::size_t>(m.results[i])];
                }
                out = acc[static_cast<std::size_t>(o.part)];
                break;
              }
            }
            break;
          }
          default: {
            std::array<double, 3> a{};
            for (std::size_t k = 0; k < 3; ++k)
              if (o.operands[k] >= 0) a[k] = at(o.operands[k]);
            out = row_program::apply(o.operation, a);
          }
        }
      }
    }
    bool odd = false;
    for (const auto& x : v)
      for (const double y : x) odd = odd || (std::isfinite(y) && (std::fabs(y) > 3e38 || (y != 0 && std::fabs(y) < 1e-37)));
    if (odd) continue;
    for (std::size_t i = 0; i < p.outputs.size(); ++i) {
      const Output& o = p.outputs[i];
      const HostArray& h = arrays[p.inputs.size() + i];
      const auto& x = v[static_cast<std::size_t>(o.node)];
      const std::int64_t len = o.kind == Kind::full ? C : o.kind == Kind::group ? C / G : 1;
      for (std::int64_t c = 0; c < len; ++c) {
        const double want = x[x.size() == 1 ? 0 : static_cast<std::size_t>(c)];
        const double got = read_element(h.info.dtype, h.data,
                                        o.kind == Kind::row      ? r
                                        : o.kind == Kind::scalar ? 0
                                                                 : r * h.info.strides[0] + c);
        std::byte tmp[8];
        double w = want;
        if (h.info.dtype != DType::f32 && h.info.dtype != DType::i32) {
          write_element(h.info.dtype, tmp, 0, static_cast<float>(want));
          w = read_element(h.info.dtype, tmp, 0);
        } else if (h.info.dtype == DType::f32)
          w = static_cast<float>(want);
        double err = 0;
        if (std::isnan(w) || std::isnan(got))
          err = std::isnan(w) == std::isnan(got) ? 0 : INFINITY;
        else if (std::isinf(w) || std::isinf(got))
          err = w == got ? 0 : INFINITY;
        else if (h.info.dtype == DType::i32 || h.info.dtype == DType::i8)
          err = std::fabs(w - got) * (h.info.dtype == DType::i8 ? 32 : 100);
        else
          err = std::fabs(w - got) / spacing(h.info.dtype, w);
        result.max_error = std::max(result.max_error, err);
        if (!(err <= 64) && result.first_failure.empty()) {
          result.first_failure = h.info.name + "[" + std::to_string(r) + "," + std::to_string(c) + "] is " +
                                 std::to_string(got) + " ref " + std::to_string(w) + " err " + std::to_string(err);
          result.passed = false;
        }
      }
    }
  }
  return result;
}
}  // namespace tunesmith
