#include "jit/workspaces.h"

#include "tunesmith/error.h"

namespace tunesmith {
namespace {

/// Returns a nonzero id of the stream. The per-thread default stream has one handle for a different stream in each thread.
std::uintptr_t owner_of(Stream stream) noexcept {
  constexpr std::uintptr_t per_thread_stream = 2;  // CU_STREAM_PER_THREAD
  static thread_local const char this_thread = 0;
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  return handle == per_thread_stream ? reinterpret_cast<std::uintptr_t>(&this_thread) : handle + 1;
}

}  // namespace

Workspaces::Workspaces(Device& device, std::size_t bytes, std::size_t ready) : device_(device), bytes_(bytes) {
  for (std::size_t i = 0; i < ready; ++i) pieces_[i].memory = make();
}

Workspaces::~Workspaces() {
  for (const Piece& piece : pieces_)
    if (void* const memory = piece.memory) device_.release(memory);
}

void* Workspaces::make() {
  void* const memory = device_.allocate(bytes_);
  try {
    device_.fill(memory, 0, bytes_);
  } catch (...) {
    device_.release(memory);
    throw;
  }
  return memory;
}

void* Workspaces::claim(Piece& piece) {
  if (void* const memory = piece.memory.load(std::memory_order_acquire)) return memory;
  const std::lock_guard lock(mutex_);
  if (piece.memory == nullptr) piece.memory.store(make(), std::memory_order_release);
  return piece.memory;
}

Workspaces::Piece& Workspaces::piece_of(Stream stream) {
  const std::uintptr_t owner = owner_of(stream);
  for (Piece& piece : pieces_) {
    std::uintptr_t found = piece.owner.load(std::memory_order_acquire);
    // Pieces are taken in order and never returned, so the first free one ends the search.
    if (found == owner || (found == 0 && piece.owner.compare_exchange_strong(found, owner)) || found == owner) return piece;
  }
  throw Error(ErrorCode::unsupported, "this plan has a workspace and was launched on ", capacity,
              " streams already; prepare another plan for more streams");
}

void* Workspaces::of(Stream stream) { return claim(piece_of(stream)); }

Workspaces::InOrder Workspaces::in_order(Stream stream) {
  Piece& piece = piece_of(stream);
  void* const memory = claim(piece);
  return {memory, std::unique_lock(piece.launching)};
}

}  // namespace tunesmith
