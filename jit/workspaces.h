#pragma once
// Workspace of a plan: one piece for each stream, because launches on different streams may run at the same time.

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
  /// Default number of pieces allocated up front. This number of streams is served without a lock and during a capture.
  static constexpr std::size_t prepared = 4;
  /// Maximum number of streams of a plan.
  static constexpr std::size_t capacity = 256;

  /// Allocates `ready` zeroed pieces of `bytes` bytes; at most `capacity`. `device` must outlive this object.
  Workspaces(Device& device, std::size_t bytes, std::size_t ready = prepared);
  ~Workspaces();
  Workspaces(const Workspaces&) = delete;
  Workspaces& operator=(const Workspaces&) = delete;

  /// Returns the stream's piece, always the same one. A new stream with the handle of a destroyed one gets its piece.
  /// Thread-safe. Throws Error(unsupported) beyond `capacity` streams, Error(out_of_memory), and the device's error if it
  /// must allocate during a capture.
  void* of(Stream stream);

  struct InOrder {
    void* memory;
    std::unique_lock<std::mutex> lock;
  };
  /// Returns the stream's piece, as of() does, and a lock that excludes other callers for this stream. Threads that share a
  /// stream hold it while they enqueue several kernels, and on the host executor, where a launch is the work itself.
  InOrder in_order(Stream stream);

 private:
  struct Piece {
    std::atomic<std::uintptr_t> owner{0};  ///< 0: free
    std::atomic<void*> memory{nullptr};
    std::mutex launching;
  };

  void* make();
  Piece& piece_of(Stream stream);
  void* claim(Piece& piece);

  Device& device_;
  const std::size_t bytes_;
  std::mutex mutex_;
  std::array<Piece, capacity> pieces_;
};

}  // namespace tunesmith
