#include "tests/api/linear_cross_entropy/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "core/half.h"
#include "tunesmith/buffer.h"

namespace tunesmith::test {
namespace {

std::vector<std::byte> noise(DType dtype, std::int64_t elements, double seed, double size) {
  std::vector<std::byte> data(static_cast<std::size_t>(elements * size_of(dtype)));
  std::uint64_t state = static_cast<std::uint64_t>(seed * 1000) + 1;
  for (std::int64_t i = 0; i < elements; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double unit = static_cast<double>(state >> 40) / static_cast<double>(1 << 24);  // [0, 1)
    write_element(dtype, data.data(), i, static_cast<float>((2 * unit - 1) * size));
  }
  return data;
}

std::vector<double> numbers(DType dtype, const std::vector<std::byte>& data) {
  std::vector<double> values(data.size() / static_cast<std::size_t>(size_of(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    values[i] =
        is_float(dtype) ? read_element(dtype, data.data(), at) : static_cast<double>(read_integer(dtype, data.data(), at));
  }
  return values;
}

struct Row {
  double loss = 0, lse = 0, z_loss = 0, nll = 0, argmax = 0;
  std::vector<double> gradient;  ///< with respect to the product hidden weight^T
};

/// `products`: hidden weight^T + bias. `z_ratio`: what the z term's gradient is multiplied with before the division by the
/// target weights. `by_lse`: receives the gradient of lse with respect to the products.
Row row_of(const LinearInputs& inputs, std::int64_t target, const std::vector<double>& products, double z_ratio,
           std::vector<double>& by_lse) {
  const LinearCrossEntropyProblem& p = inputs.problem;
  const std::size_t classes = products.size();
  std::vector<double> x(classes), slope(classes);
  for (std::size_t c = 0; c < classes; ++c) {
    const double scaled = p.scale * products[c];
    const double bent = p.softcap > 0 ? std::tanh(scaled / p.softcap) : 0;
    x[c] = p.softcap > 0 ? p.softcap * bent : scaled;
    slope[c] = p.softcap > 0 ? p.scale * (1 - bent * bent) : p.scale;
  }
  Row row;
  row.gradient.assign(classes, 0);
  const auto largest = std::ranges::max_element(x);
  row.argmax = static_cast<double>(largest - x.begin());
  double sum = 0;
  for (const double value : x) sum += std::exp(value - *largest);
  row.lse = *largest + std::log(sum);
  for (std::size_t c = 0; c < classes; ++c) by_lse[c] = std::exp(x[c] - row.lse) * slope[c];
  if (target == p.ignore_index) return row;
  if (target < 0 || target >= p.vocab_size) {
    row.loss = row.nll = std::numeric_limits<double>::quiet_NaN();
    return row;
  }
  const auto weight = [&](std::size_t c) { return p.class_weight ? static_cast<double>(inputs.class_weight[c]) : 1.0; };
  const auto hit = static_cast<std::size_t>(target);
  const double share = p.label_smoothing / static_cast<double>(classes), own = (1 - p.label_smoothing) * weight(hit);
  row.nll = row.lse - x[hit];
  row.z_loss = p.z_loss * row.lse * row.lse;
  row.loss = own * row.nll + row.z_loss;
  double all = own;  // the factor of lse
  for (std::size_t c = 0; c < classes; ++c) {
    row.loss += share * weight(c) * (row.lse - x[c]);
    all += share * weight(c);
  }
  for (std::size_t c = 0; c < classes; ++c) {
    const double probability = std::exp(x[c] - row.lse);
    const double by_x = (all + 2 * p.z_loss * z_ratio * row.lse) * probability - share * weight(c) - (c == hit ? own : 0);
    row.gradient[c] = by_x * slope[c];
  }
  return row;
}

}  // namespace

LinearInputs linear_inputs(const LinearCrossEntropyProblem& problem) {
  LinearInputs inputs;
  inputs.problem = problem;
  inputs.hidden = noise(problem.dtype, problem.tokens * problem.hidden_size, 0.5, 2);
  inputs.weight = noise(problem.dtype, problem.vocab_size * problem.hidden_size, 0.25, 1);
  if (problem.bias) inputs.bias = noise(problem.f32_logits ? DType::f32 : problem.dtype, problem.vocab_size, 0.75, 3);
  if (problem.dlse)
    for (std::int64_t t = 0; t < problem.tokens; ++t) inputs.dlse.push_back(static_cast<float>(t % 7) / 8 - 0.25f);
  inputs.targets.resize(static_cast<std::size_t>(problem.tokens * size_of(problem.target_dtype)));
  for (std::int64_t t = 0; t < problem.tokens; ++t)
    write_integer(problem.target_dtype, inputs.targets.data(), t,
                  t % 5 == 4 ? problem.ignore_index : (t * 7919 + 3) % problem.vocab_size);
  if (problem.class_weight)
    for (std::int64_t c = 0; c < problem.vocab_size; ++c)
      inputs.class_weight.push_back(0.5f + static_cast<float>(c % 7) / 4);
  if (problem.dloss)
    for (std::int64_t t = 0; t < (problem.reduction == Reduction::none ? problem.tokens : 1); ++t)
      inputs.dloss.push_back(1.5f - static_cast<float>(t % 11) / 4);
  return inputs;
}

LinearOutputs reference(const LinearInputs& inputs) {
  const LinearCrossEntropyProblem& p = inputs.problem;
  const auto hidden = numbers(p.dtype, inputs.hidden), weight = numbers(p.dtype, inputs.weight);
  const auto bias = numbers(p.f32_logits ? DType::f32 : p.dtype, inputs.bias);
  const auto targets = numbers(p.target_dtype, inputs.targets);
  const auto tokens = static_cast<std::size_t>(p.tokens), size = static_cast<std::size_t>(p.hidden_size);
  const auto classes = static_cast<std::size_t>(p.vocab_size);
  LinearOutputs outputs;
  if (p.dhidden) outputs.dhidden.assign(tokens * size, 0);
  if (p.dweight) outputs.dweight.assign(classes * size, 0);
  if (p.dbias) outputs.dbias.assign(classes, 0);

  double divisor = 0, valid = 0;  // the z term has no weight: its mean divides by the number of valid tokens
  for (const double target : targets)
    if (target != static_cast<double>(p.ignore_index) && target >= 0 && target < static_cast<double>(p.vocab_size)) {
      valid += 1;
      divisor += p.class_weight ? static_cast<double>(inputs.class_weight[static_cast<std::size_t>(target)]) : 1.0;
    }
  const bool each = p.reduction == Reduction::none;
  if (p.reduction != Reduction::mean) divisor = valid = 1;

  double loss = 0, z_loss = 0;
  std::vector<double> products(classes), by_lse(classes);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t c = 0; c < classes; ++c) {
      products[c] = p.bias ? bias[c] : 0;
      for (std::size_t d = 0; d < size; ++d) products[c] += hidden[t * size + d] * weight[c * size + d];
    }
    const Row row = row_of(inputs, static_cast<std::int64_t>(targets[t]), products, divisor / valid, by_lse);
    outputs.lse.push_back(row.lse);
    if (p.nll) outputs.nll.push_back(row.nll);
    if (p.argmax) outputs.argmax.push_back(row.argmax);
    if (each) outputs.loss.push_back(row.loss);
    if (each && p.z_loss > 0) outputs.z_loss.push_back(row.z_loss);
    loss += row.loss;
    z_loss += row.z_loss;
    const double upstream = p.dloss ? static_cast<double>(inputs.dloss[each ? t : 0]) : 1.0;
    for (std::size_t c = 0; c < classes; ++c) {
      double gradient = row.gradient[c] == 0 ? 0 : row.gradient[c] * upstream / divisor;
      if (p.dlse) gradient += static_cast<double>(inputs.dlse[t]) * by_lse[c];
      if (p.dbias) outputs.dbias[c] += gradient;
      for (std::size_t d = 0; d < size; ++d) {
        if (p.dhidden) outputs.dhidden[t * size + d] += gradient * weight[c * size + d];
        if (p.dweight) outputs.dweight[c * size + d] += gradient * hidden[t * size + d];
      }
    }
  }
  if (!each) outputs.loss = {(loss - z_loss) / divisor + z_loss / valid};
  if (!each && p.z_loss > 0) outputs.z_loss = {z_loss / valid};
  return outputs;
}

namespace {

/// A device array followed by a margin that must not change.
class Guarded {
 public:
  /// `offset`: from the alignment of an allocation, in bytes.
  Guarded(Engine& engine, std::size_t bytes, std::size_t offset = 0)
      : buffer_(engine, offset + bytes + margin), bytes_(bytes), offset_(offset) {
    const std::vector<std::byte> poison(offset + bytes + margin, std::byte{0xFF});  // NaN in every float dtype
    buffer_.copy_from_host(poison.data(), poison.size());
  }
  Guarded(Engine& engine, const void* data, std::size_t bytes, std::size_t offset = 0) : Guarded(engine, bytes, offset) {
    std::vector<std::byte> all(offset + bytes + margin, std::byte{0xFF});
    if (bytes > 0) std::memcpy(all.data() + offset, data, bytes);
    buffer_.copy_from_host(all.data(), all.size());
  }
  template <typename T = void>
  T* address() const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(buffer_.data()) + offset_);
  }
  std::vector<double> values(DType dtype) const {
    std::vector<std::byte> all(offset_ + bytes_ + margin);
    buffer_.copy_to_host(all.data(), all.size());
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(offset_), end = begin + static_cast<std::ptrdiff_t>(bytes_);
    const auto is_poison = [](std::byte byte) { return byte == std::byte{0xFF}; };
    EXPECT_TRUE(std::all_of(all.begin(), begin, is_poison)) << "written before the begin";
    EXPECT_TRUE(std::all_of(end, all.end(), is_poison)) << "written beyond the end";
    return numbers(dtype, {begin, end});
  }

 private:
  static constexpr std::size_t margin = 256;
  DeviceBuffer buffer_;
  std::size_t bytes_, offset_;
};

}  // namespace

LinearOutputs launch(Engine& engine, const LinearCrossEntropy& prepared, const LinearInputs& inputs) {
  const LinearCrossEntropyProblem& p = prepared.problem();
  const auto tokens = static_cast<std::size_t>(p.tokens);
  const std::size_t losses = p.reduction == Reduction::none ? tokens : 1;
  const std::size_t target = static_cast<std::size_t>(size_of(p.target_dtype));
  const DType dweight_dtype = p.f32_dweight ? DType::f32 : p.dtype;
  const auto dweight_bytes = static_cast<std::size_t>(p.vocab_size * p.hidden_size * size_of(dweight_dtype));
  const auto sent = [&](const auto& data, std::int64_t alignment = 16) {
    return Guarded(engine, data.data(), data.size() * sizeof data[0],
                   alignment < 16 ? static_cast<std::size_t>(alignment) : 0);
  };
  const auto written = [&](std::size_t bytes, std::int64_t alignment = 16) {
    return Guarded(engine, bytes, alignment < 16 ? static_cast<std::size_t>(alignment) : 0);
  };
  const Guarded hidden = sent(inputs.hidden, p.hidden_alignment), weight = sent(inputs.weight, p.weight_alignment);
  const Guarded bias = sent(inputs.bias, p.bias_alignment), targets = sent(inputs.targets);
  const Guarded class_weight = sent(inputs.class_weight), dloss = sent(inputs.dloss), dlse = sent(inputs.dlse);
  const Guarded loss = written(losses * 4), lse = written(tokens * 4), z_loss = written(losses * 4);
  const Guarded nll = written(tokens * 4), argmax = written(tokens * target);
  const Guarded dhidden = written(inputs.hidden.size(), p.dhidden_alignment);
  const Guarded dweight = written(dweight_bytes, p.dweight_alignment);
  const Guarded dbias = written(static_cast<std::size_t>(p.vocab_size * size_of(dweight_dtype)));
  const Guarded workspace = written(p.caller_workspace ? prepared.workspace_bytes() : 0);

  LinearCrossEntropyArrays arrays;
  arrays.hidden = hidden.address();
  arrays.weight = weight.address();
  arrays.targets = targets.address();
  arrays.loss = loss.address<float>();
  arrays.lse = lse.address<float>();
  if (p.class_weight) arrays.class_weight = class_weight.address<float>();
  if (p.bias) arrays.bias = bias.address();
  if (p.dloss) arrays.dloss = dloss.address<float>();
  if (p.dlse) arrays.dlse = dlse.address<float>();
  if (p.z_loss > 0) arrays.z_loss = z_loss.address<float>();
  if (p.nll) arrays.nll = nll.address<float>();
  if (p.argmax) arrays.argmax = argmax.address();
  if (p.dhidden) arrays.dhidden = dhidden.address();
  if (p.dweight) arrays.dweight = dweight.address();
  if (p.dbias) arrays.dbias = dbias.address();
  if (p.caller_workspace) arrays.workspace = workspace.address();
  prepared.launch(arrays);
  engine.synchronize();

  LinearOutputs outputs;
  outputs.loss = loss.values(DType::f32);
  outputs.lse = lse.values(DType::f32);
  if (p.z_loss > 0) outputs.z_loss = z_loss.values(DType::f32);
  if (p.nll) outputs.nll = nll.values(DType::f32);
  if (p.argmax) outputs.argmax = argmax.values(p.target_dtype);
  if (p.dhidden) outputs.dhidden = dhidden.values(p.dtype);
  if (p.dweight) outputs.dweight = dweight.values(dweight_dtype);
  if (p.dbias) outputs.dbias = dbias.values(dweight_dtype);
  if (p.caller_workspace) workspace.values(DType::f32);
  return outputs;
}

double distance(const std::vector<double>& found, const std::vector<double>& expected) {
  if (found.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double largest = 0, furthest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(found[i]) && std::isnan(expected[i])) continue;
    if (std::isnan(found[i]) || std::isnan(expected[i])) return std::numeric_limits<double>::quiet_NaN();
    largest = std::max(largest, std::fabs(expected[i]));
    furthest = std::max(furthest, std::fabs(found[i] - expected[i]));
  }
  return furthest == 0 ? 0 : furthest / largest;
}

void expect_near(const LinearOutputs& found, const LinearOutputs& expected, double allowed) {
  const auto compare = [&](const char* name, std::vector<double> LinearOutputs::*output) {
    const double away = distance(found.*output, expected.*output);
    EXPECT_LE(away, allowed) << name;
  };
  compare("loss", &LinearOutputs::loss);
  compare("lse", &LinearOutputs::lse);
  compare("z_loss", &LinearOutputs::z_loss);
  compare("nll", &LinearOutputs::nll);
  compare("argmax", &LinearOutputs::argmax);
  compare("dhidden", &LinearOutputs::dhidden);
  compare("dweight", &LinearOutputs::dweight);
  compare("dbias", &LinearOutputs::dbias);
}

}  // namespace tunesmith::test
