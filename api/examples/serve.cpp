// Serves a small transformer with random weights: a KV cache in pages, requests that come and go between steps (continuous
// batching), greedy decoding. Then every request is decoded again by the same model without a cache, in double precision:
// the tokens must be the same. Runs on the first GPU, or else on the CPU with the host executor. Matrix products and norms
// are loops on the host here, to keep the program short.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "tunesmith/buffer.h"
#include "tunesmith/tunesmith.h"

namespace {

using Floats = std::vector<float>;
constexpr std::size_t layers = 2, hidden = 48, heads = 4, kv_heads = 2, head_dim = 16, vocab = 101, max_length = 40;
constexpr std::size_t page_size = 4, pages = 26, max_pages = max_length / page_size, max_batch = 4;

Floats random_floats(std::size_t count, float size, std::mt19937& random) {
  Floats values(count);
  for (float& value : values) value = std::normal_distribution<float>(0, size)(random);
  return values;
}

/// Returns x W^T for rows x of `width` elements.
Floats multiply(const Floats& x, const Floats& weights, std::size_t width) {
  const std::size_t rows = x.size() / width, columns = weights.size() / width;
  Floats y(rows * columns);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c)
      y[r * columns + c] = std::inner_product(&x[r * width], &x[r * width] + width, &weights[c * width], 0.0f);
  return y;
}

/// Divides rows by their root mean square.
Floats normalized(Floats x, std::size_t width) {
  for (auto row = x.begin(); row != x.end(); row += width) {
    const float squares = std::inner_product(row, row + width, row, 0.0f) / static_cast<float>(width);
    for (std::size_t c = 0; c < width; ++c) row[static_cast<std::ptrdiff_t>(c)] /= std::sqrt(squares + 1e-6f);
  }
  return x;
}

/// The transformer. `attend` gets a layer and its q, k and v, rows of all heads of a token, and returns o.
struct Model {
  using Attend = std::function<Floats(std::size_t layer, const Floats& q, const Floats& k, const Floats& v)>;
  struct Layer {
    Floats q, k, v, o, up, down;
  };
  Floats embedding, cos_sin;  // cos_sin: a row of cosines and sines for each position
  std::vector<Layer> all;

  explicit Model(std::mt19937& random) : embedding(random_floats(vocab * hidden, 1, random)) {
    const auto matrix = [&](std::size_t out, std::size_t in) {
      return random_floats(out * in, 1 / std::sqrt(static_cast<float>(in)), random);
    };
    for (std::size_t i = 0; i < layers; ++i)
      all.push_back({matrix(heads * head_dim, hidden), matrix(kv_heads * head_dim, hidden),
                     matrix(kv_heads * head_dim, hidden), matrix(hidden, heads * head_dim), matrix(4 * hidden, hidden),
                     matrix(hidden, 4 * hidden)});
    constexpr std::size_t half = head_dim / 2;
    for (std::size_t position = 0; position < max_length; ++position)
      for (std::size_t i = 0; i < head_dim; ++i) {
        const double angle = static_cast<double>(position) * std::pow(100.0, -static_cast<double>(i % half) / half);
        cos_sin.push_back(static_cast<float>(i < half ? std::cos(angle) : std::sin(angle)));
      }
  }

  /// Returns the logits after each token.
  Floats run(const std::vector<int>& tokens, const Attend& attend) const {
    Floats x;
    for (const int token : tokens) {
      const auto row = embedding.begin() + static_cast<std::ptrdiff_t>(token * hidden);
      x.insert(x.end(), row, row + hidden);
    }
    const auto add = [&](const Floats& more) { std::ranges::transform(x, more, x.begin(), std::plus<>()); };
    for (std::size_t i = 0; i < layers; ++i) {
      const Floats in = normalized(x, hidden);
      const Floats o =
          attend(i, multiply(in, all[i].q, hidden), multiply(in, all[i].k, hidden), multiply(in, all[i].v, hidden));
      add(multiply(o, all[i].o, heads * head_dim));
      Floats up = multiply(normalized(x, hidden), all[i].up, hidden);
      for (float& value : up) value = std::max(value, 0.0f);
      add(multiply(up, all[i].down, 4 * hidden));
    }
    return multiply(normalized(x, hidden), embedding, hidden);
  }
};

int best_of(const Floats& logits, std::size_t row) {
  const auto first = logits.begin() + static_cast<std::ptrdiff_t>(row * vocab);
  return static_cast<int>(std::max_element(first, first + vocab) - first);
}

// [serve]
struct Request {
  std::vector<int> tokens;  ///< the prompt, then what was generated
  std::size_t length;       ///< tokens at the end
  std::size_t cached = 0;   ///< tokens whose keys and values are in the cache
  std::vector<int> pages{};
};

class Server {
 public:
  Server(tunesmith::Engine& engine, const Model& model) : engine_(engine), model_(model), cos_sin_(upload(model.cos_sin)) {
    for (std::size_t i = 0; i < 2 * layers; ++i)
      caches_.emplace_back(engine, pages * page_size * kv_heads * head_dim * sizeof(float));
    for (std::size_t i = 0; i < pages; ++i) free_.push_back(static_cast<int>(i));
  }

  /// Runs a step: whole prompts of new requests and one token of the others, in one batch.
  void step(const std::vector<Request*>& batch) {
    std::vector<int> tokens, starts{0}, lengths, table;
    std::vector<std::int64_t> slots, positions;
    for (Request* request : batch) {
      while (request->pages.size() * page_size < request->tokens.size()) {
        request->pages.push_back(free_.back());
        free_.pop_back();
      }
      for (std::size_t i = request->cached; i < request->tokens.size(); ++i) {
        tokens.push_back(request->tokens[i]);
        positions.push_back(static_cast<std::int64_t>(i));
        slots.push_back(
            static_cast<std::int64_t>(static_cast<std::size_t>(request->pages[i / page_size]) * page_size + i % page_size));
      }
      request->cached = request->tokens.size();
      starts.push_back(static_cast<int>(tokens.size()));
      lengths.push_back(static_cast<int>(request->cached));
      table.insert(table.end(), request->pages.begin(), request->pages.end());
      table.resize(lengths.size() * max_pages, -1);  // entries beyond a length may hold anything
    }
    const auto cu_seqlens = upload(starts), kv_lengths = upload(lengths), block_table = upload(table);
    const auto slot_mapping = upload(slots), places = upload(positions);

    const auto count = static_cast<std::int64_t>(tokens.size());
    tunesmith::KvAppendProblem append{.tokens = count, .heads = heads, .kv_heads = kv_heads, .head_dim = head_dim};
    append.dtype = tunesmith::DType::f32;
    append.page_size = page_size;
    append.pages = pages;
    append.rope = tunesmith::Rope::neox;
    append.max_positions = max_length;
    tunesmith::AttentionProblem attention{.batch = static_cast<std::int64_t>(batch.size()), .heads = heads};
    attention.kv_heads = kv_heads;
    attention.head_dim = head_dim;
    attention.dtype = tunesmith::DType::f32;
    attention.causal = tunesmith::Causal::bottom_right;
    attention.varlen = true;  // queries are packed
    attention.seq_q = max_length;
    attention.total_q = count;
    attention.page_size = page_size;
    attention.pages = pages;
    attention.max_pages = max_pages;

    const Floats logits = model_.run(tokens, [&](std::size_t layer, const Floats& q, const Floats& k, const Floats& v) {
      const auto queries = upload(q), keys = upload(k), values = upload(v);
      const auto rotated = upload(q), output = upload(q);
      void *const k_cache = caches_[2 * layer].data(), *const v_cache = caches_[2 * layer + 1].data();
      engine_.run(append, {.k = keys.data(),
                           .v = values.data(),
                           .slot_mapping = static_cast<const std::int64_t*>(slot_mapping.data()),
                           .q = queries.data(),
                           .positions = static_cast<const std::int64_t*>(places.data()),
                           .cos_sin = cos_sin_.data(),
                           .k_cache = k_cache,
                           .v_cache = v_cache,
                           .q_out = rotated.data()});
      engine_.run(attention, {.q = rotated.data(),
                              .k = k_cache,
                              .v = v_cache,
                              .cu_seqlens_q = static_cast<const std::int32_t*>(cu_seqlens.data()),
                              .block_table = static_cast<const std::int32_t*>(block_table.data()),
                              .kv_lengths = static_cast<const std::int32_t*>(kv_lengths.data()),
                              .o = output.data()});
      Floats o(q.size());
      output.copy_to_host(o.data(), output.bytes());
      return o;
    });
    for (std::size_t b = 0; b < batch.size(); ++b)
      batch[b]->tokens.push_back(best_of(logits, static_cast<std::size_t>(starts[b + 1]) - 1));
  }

  /// Runs all requests; new ones start as soon as the batch and the pool have room.
  std::size_t serve(std::vector<Request>& requests) {
    std::size_t steps = 0, reserved = 0;
    const auto pages_of = [](const Request& request) { return (request.length + page_size - 1) / page_size; };
    std::deque<Request*> waiting;
    for (Request& request : requests) waiting.push_back(&request);
    for (std::vector<Request*> running; !waiting.empty() || !running.empty(); ++steps) {
      while (!waiting.empty() && running.size() < max_batch && reserved + pages_of(*waiting.front()) <= pages) {
        reserved += pages_of(*waiting.front());
        running.push_back(waiting.front());
        waiting.pop_front();
      }
      step(running);
      std::erase_if(running, [&](Request* request) {
        if (request->tokens.size() < request->length) return false;
        free_.insert(free_.end(), request->pages.begin(), request->pages.end());
        reserved -= pages_of(*request);
        return true;
      });
    }
    return steps;
  }

 private:
  template <typename Element>
  tunesmith::DeviceBuffer upload(const std::vector<Element>& values) {
    tunesmith::DeviceBuffer buffer(engine_, values.size() * sizeof(Element));
    buffer.copy_from_host(values.data(), buffer.bytes());
    return buffer;
  }

  tunesmith::Engine& engine_;
  const Model& model_;
  tunesmith::DeviceBuffer cos_sin_;
  std::vector<tunesmith::DeviceBuffer> caches_;  ///< K and V of each layer
  std::vector<int> free_;
};
// [serve]

/// Returns causal attention of a whole sequence, computed on the host.
Floats attend_without_cache(const Model& model, const Floats& q, const Floats& k, const Floats& v) {
  const std::size_t tokens = k.size() / (kv_heads * head_dim);
  const auto rotated = [&](const Floats& x, std::size_t count, std::size_t token, std::size_t head, std::size_t c) {
    constexpr std::size_t half = head_dim / 2;
    const std::size_t row = (token * count + head) * head_dim;
    const double cosine = model.cos_sin[token * head_dim + c % half],
                 sine = model.cos_sin[token * head_dim + half + c % half];
    return x[row + c] * cosine + (c < half ? -x[row + c + half] : x[row + c - half]) * sine;
  };
  Floats o(q.size());
  for (std::size_t i = 0; i < tokens; ++i)
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t g = h / (heads / kv_heads);
      std::vector<double> weights(i + 1), sums(head_dim);
      double total = 0;
      for (std::size_t j = 0; j <= i; ++j) {
        double score = 0;
        for (std::size_t c = 0; c < head_dim; ++c) score += rotated(q, heads, i, h, c) * rotated(k, kv_heads, j, g, c);
        total += weights[j] = std::exp(score / std::sqrt(static_cast<double>(head_dim)));
      }
      for (std::size_t c = 0; c < head_dim; ++c) {
        for (std::size_t j = 0; j <= i; ++j) sums[c] += weights[j] * v[(j * kv_heads + g) * head_dim + c];
        o[(i * heads + h) * head_dim + c] = static_cast<float>(sums[c] / total);
      }
    }
  return o;
}

}  // namespace

int main() try {
  tunesmith::Engine engine;  // reads device, mode and cache from the environment
  std::mt19937 random(7);
  const Model model(random);
  std::vector<Request> requests;
  for (std::size_t i = 0; i < 9; ++i) {
    Request request{std::vector<int>(1 + random() % 12), 0};
    for (int& token : request.tokens) token = static_cast<int>(random() % vocab);
    request.length = request.tokens.size() + 2 + random() % (max_length - 14);
    requests.push_back(request);
  }
  std::vector<std::vector<int>> expected;
  std::size_t generated = 0;
  for (const Request& request : requests) {
    std::vector<int> tokens = request.tokens;
    for (; tokens.size() < request.length; ++generated) {
      const Floats logits = model.run(tokens, [&](std::size_t, const Floats& q, const Floats& k, const Floats& v) {
        return attend_without_cache(model, q, k, v);
      });
      tokens.push_back(best_of(logits, tokens.size() - 1));
    }
    expected.push_back(tokens);
  }

  const std::size_t steps = Server(engine, model).serve(requests);
  std::size_t equal = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) equal += requests[i].tokens == expected[i] ? 1 : 0;
  std::printf("%s: %zu requests, %zu tokens in %zu steps; %zu requests have the tokens of the model without a cache\n",
              engine.device().name.c_str(), requests.size(), generated, steps, equal);
  return equal == requests.size() ? 0 : 1;
} catch (const tunesmith::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
