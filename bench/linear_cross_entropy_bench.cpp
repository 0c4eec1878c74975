// Linear + cross-entropy with both gradients against the three matrix products alone, on all tokens at once, interleaved in
// one run. The difference is the cost of the chunks and of the loss itself.

#include <benchmark/benchmark.h>

#include <string>

#include "bench/gpu.h"
#include "bench/register.h"
#include "tuner/products.h"
#include "tunesmith/buffer.h"
#include "tunesmith/linear_cross_entropy.h"

namespace tunesmith::bench {
namespace {

/// logits = hidden weight^T, dhidden = logits weight, dweight = logits^T hidden.
class ThreeProducts {
 public:
  ThreeProducts(Engine& engine, const LinearCrossEntropyProblem& problem)
      : library_(engine.parts().matmul()),
        logits_(engine, static_cast<std::size_t>(problem.tokens * problem.vocab_size * size_of(problem.dtype))),
        workspace_(engine, library_->workspace_bytes()) {
    const auto prepare = [&](const MatmulProblem& product) {
      return choose_product(*library_, product, *engine.parts().device, *engine.parts().cache, {.measure_s = 5});
    };
    MatmulProblem product;
    product.factors.emplace();
    product.workspace_bytes = library_->workspace_bytes();
    product.dtype = product.out_dtype = problem.dtype;
    product.m = problem.tokens;
    product.n = product.c_row_stride = problem.vocab_size;
    product.k = product.a_row_stride = product.b_row_stride = problem.hidden_size;
    product.transpose_b = true;
    logits_product_ = prepare(product);
    product.n = product.c_row_stride = problem.hidden_size;
    product.k = product.a_row_stride = problem.vocab_size;
    product.transpose_b = false;
    dhidden_product_ = prepare(product);
    product.m = problem.vocab_size;
    product.k = problem.tokens;
    product.transpose_a = true;
    dweight_product_ = prepare(product);
  }

  void enqueue(const LinearCrossEntropyArrays& arrays, Stream stream) const {
    const auto enqueue = [&](const PreparedMatmul& product, const void* a, const void* b, void* c) {
      product.enqueue({a, b, c, nullptr, nullptr, workspace_.data()}, stream);
    };
    enqueue(*logits_product_, arrays.hidden, arrays.weight, logits_.data());
    enqueue(*dhidden_product_, logits_.data(), arrays.weight, arrays.dhidden);
    enqueue(*dweight_product_, logits_.data(), arrays.hidden, arrays.dweight);
  }

 private:
  std::shared_ptr<MatmulLibrary> library_;
  DeviceBuffer logits_, workspace_;
  std::unique_ptr<PreparedMatmul> logits_product_, dhidden_product_, dweight_product_;
};

void run(benchmark::State& state, Engine& engine, LinearCrossEntropyProblem problem) {
  problem.caller_workspace = true;
  const std::int64_t hidden_elements = problem.tokens * problem.hidden_size;
  const std::int64_t weight_elements = problem.vocab_size * problem.hidden_size;
  const DeviceBuffer hidden = random_numbers(engine, problem.dtype, hidden_elements, 1);
  const DeviceBuffer weight = random_numbers(engine, problem.dtype, weight_elements, 0.02f);
  const DeviceBuffer dhidden(engine, hidden.bytes()), dweight(engine, 2 * weight.bytes()), loss(engine, sizeof(float));
  DeviceBuffer targets(engine, static_cast<std::size_t>(problem.tokens) * sizeof(std::int64_t));
  std::vector<std::int64_t> classes(static_cast<std::size_t>(problem.tokens));
  for (std::size_t t = 0; t < classes.size(); ++t)
    classes[t] = static_cast<std::int64_t>(t * 2654435761u % static_cast<std::size_t>(problem.vocab_size));
  targets.copy_from_host(classes.data(), targets.bytes());

  const LinearCrossEntropy prepared(engine, problem);
  const DeviceBuffer workspace(engine, prepared.workspace_bytes());
  LinearCrossEntropyArrays arrays;
  arrays.hidden = hidden.data();
  arrays.weight = weight.data();
  arrays.targets = targets.data();
  arrays.loss = static_cast<float*>(loss.data());
  arrays.dhidden = dhidden.data();
  arrays.dweight = dweight.data();
  arrays.workspace = workspace.data();
  const ThreeProducts products(engine, problem);
  for (auto _ : state) {
    const std::vector<double> us = interleaved_us(
        *engine.parts().device,
        {[&](Stream stream) { products.enqueue(arrays, stream); }, [&](Stream stream) { prepared.launch(arrays, stream); }},
        11);
    state.SetIterationTime(us[1] * 1e-6);
    state.counters["products_us"] = us[0];
    state.counters["over_products"] = us[1] / us[0];
    state.counters["scratch_MiB"] = static_cast<double>(prepared.workspace_bytes()) / (1 << 20);
  }
  state.SetLabel(std::to_string(prepared.chunks()) + " chunks of " + std::to_string(prepared.chunk_tokens()) + ", " +
                 std::string(name(prepared.cross_entropy().origin())) + " " + prepared.cross_entropy().config().text());
}

}  // namespace

void register_linear_cross_entropy(Engine& engine) {
  for (const std::int64_t memory_mib : {512, 1126, 4096})
    for (const bool f32_dweight : {false, true}) {
      LinearCrossEntropyProblem problem;
      problem.tokens = 8192;
      problem.hidden_size = 4096;
      problem.vocab_size = 128256;
      problem.dhidden = problem.dweight = true;
      problem.memory_bytes = memory_mib << 20;
      problem.f32_dweight = f32_dweight;
      const std::string title = "linear_cross_entropy/bf16/8192x4096x128256/" + std::to_string(memory_mib) + "MiB" +
                                (f32_dweight ? "/f32_dweight" : "");
      register_timed(title, [&engine, problem](benchmark::State& state) { run(state, engine, problem); });
    }
}

}  // namespace tunesmith::bench
