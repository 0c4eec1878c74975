#pragma once
// Scratch memory of a plan: one piece for each stream that it is launched on, because launches on different streams may run
// at the same time.

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "jit/device.h"

namespace tunesmith {

class Workspaces {
 public:
  /// Pieces that exist from the start unless told otherwise; so many streams are served without a lock and during a capture.
  static constexpr std::size_t prepared = 4;
  /// Streams that a plan can be used on in all.
  static constexpr std::size_t capacity = 256;

  /// Pieces of `bytes`, zeroed; `ready` of them from the start, at most `capacity`. `device` must outlive this object.
  Workspaces(Device& device, std::size_t bytes, std::size_t ready = prepared);
  ~Workspaces();
  Workspaces(const Workspaces&) = delete;
  Workspaces& operator=(const Workspaces&) = delete;

  /// The stream's own piece; the same one whenever it is asked for. A destroyed stream's piece goes to the next stream with
  /// its handle. Thread-safe. Throws Error(unsupported) beyond `capacity` streams, Error(out_of_memory), and what the device
  /// says when it may not allocate (a capture).
  void* of(Stream stream);

 private:
  struct Piece {
    std::atomic<std::uintptr_t> owner{0};  ///< 0: free
    std::atomic<void*> memory{nullptr};
  };

  void* make();
  void* claim(Piece& piece);

  Device& device_;
  const std::size_t bytes_;
  std::mutex mutex_;
  std::array<Piece, capacity> pieces_;
};

}  // namespace tunesmith
