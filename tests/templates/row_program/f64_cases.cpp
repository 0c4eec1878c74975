#include "tests/templates/row_program/f64_cases.h"

namespace tunesmith::test {
namespace {

const std::vector<NamedProgram> programs{
    {"f64 types", R"(
in  x : f64[row, col]
in  a : f32[row, col]
in  b : bf16[row, col]
in  c : e4m3[row, col]
in  w : f64[col]
in  v : f16[col]
in  u : i8[col]
in  s : f32[row]
in  k : i32[row]
in  q : f64[]
num eps : f64 = 1e-300
h : bf16 = x * w
sum t = x * a + b
out y : f64[row, col] = h * v + c * u + t * 0.1 + eps
out z : f32[row, col] = x * s + k
out n : e5m2[row, col] = a * q
out total : f64[row] = t
out narrow : f16[row] = t / 3
)"},
    {"f64 of narrow rows", R"(
in  x : f16[row, col]
in  scale : f64[row]
mean m = x * scale
out y : bf16[row, col] = x * scale - m
out z : i8[row, col] = 10 * x
out mean_out : f64[row] = m
)"},
    {"f64 in the sums", R"(
in  x : f32[row, col]
in  dy : bf16[row, col]
max m = x
out p : f32[row, col] = exp(x - m)
colsum dw : f64[col] = x * dy
colsum db : f32[col] = dy
)"},
    {"f64 in the totals", R"(
in  x : f32[row, col]
in  w : f64[col]
mean m = x
colsum t : f64[] = x * w
colsum u : f32[] = m * m
)"},
    {"f64 functions", R"(
in  x : f64[row, col]
num top : f32 = 2.1
a = exp2(min(x, 4)) + log1p(abs(x)) + tanh(x) + erf(x / 3)
b = floor(x) + round(x * 0.5) + square(min(x, top)) + log(abs(x) + 1e-40) + sqrt(abs(x))
c = relu(x) - gelu_tanh(x) + gelu(x) + clamp(x, -1, 1) + silu(x) + f32(col) + pi
out y : f64[row, col] = a + b * 0.25
out z : f64[row, col] = c + uniform(7, 1)
)"},
    {"f64 groups", R"(
in  x : f64[row, col]
in  scale : f32[row, col/32]
monoid largest(a, b) = max(a, b) identity -inf
mean[32] g = x * scale
lse[32] l = x
moments[32] m, v = x
argmin[32] i = x
count[32] n = x > 0
reduce[32] top = largest(abs(x))
out a : f64[row, col/32] = g + l
out b : f64[row, col/32] = v
out c : f32[row, col/32] = select(n > 16, i, n)
out y : f64[row, col] = x - m + top / 3
)"},
    {"f64 own reduction", R"(
in x : f64[row, col]
fn scaled(s, m, top) = select(m == top, s, s * exp(m - top))
monoid online((a, b), (c, d)) = (max(a, c), scaled(b, a, max(a, c)) + scaled(d, c, max(a, c))) identity (-inf, 0)
reduce m, s = online(x, 1)
out y : f64[row, col] = exp(x - m) / s
)"},
    {"f64 chosen", R"(
in  x : f64[row, col]
in  bonus : f32[row, 6]
topk[6] v, i, a, b = x, x / 3, x + 1
mean m = v * bonus
argmax best = a + bonus
moments mu, variance = b
out value  : f64[row, 6] = select(rank == best, 0, a - m)
out narrow : f32[row, 6] = v
out column : i32[row, 6] = i
out spread : f64[row] = variance - mu
out y : f64[row, col] = scatter(i, exp(v - m))
)"},
    {"f64 long list", R"(
in x : f64[row, col]
topk[40] v, i = x
out value : f64[row, 40] = v
out column : i32[row, 40] = i
)"},
};

}  // namespace

const std::vector<NamedProgram>& f64_row_programs() { return programs; }

}  // namespace tunesmith::test
