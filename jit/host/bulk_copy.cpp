// ResidentGroup's copies through TMA. A copy to shared memory fills its destination with 0xFF bytes (NaNs) at once and lands
// when a thread waits at its barrier. A store completes when its thread waits and no other thread can run, and fails if the
// shared memory has changed since it was issued. So a kernel that lacks a wait fails here every time, not occasionally on a
// GPU.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "core/half.h"
#include "jit/host/resident_group.h"

namespace tunesmith::host {
namespace {

constexpr std::uint32_t rank_shift = 24;  // of addresses in other blocks, as address_of_rank() makes them
constexpr std::size_t unit = 16;          // bytes of an access

}  // namespace

// ---- Shared memory ------------------------------------------------------------------------------------------------------

unsigned ResidentGroup::shared_address(abi::Thread& thread, const void* object) {
  Fiber& fiber = fiber_of(thread);
  const std::uint32_t address = fiber.group->shared_.address(fiber.block, object);
  if (address == 0) fail(fiber, "calls shared_address for an object that is not in its block's shared memory");
  // As on a GPU, a block of a cluster has its rank in its own addresses, too: descriptors of matrices must not take it over.
  const std::size_t blocks = fiber.group->cluster_blocks_;
  if (blocks == 1) return address;
  return address | static_cast<unsigned>(fiber.block % blocks + 1) << rank_shift;
}

void* ResidentGroup::shared_pointer(abi::Thread& thread, unsigned address, unsigned bytes) {
  Fiber& fiber = fiber_of(thread);
  ResidentGroup& group = *fiber.group;
  std::size_t block = fiber.block;
  if (const unsigned rank = address >> rank_shift; rank != 0) {
    if (rank > group.cluster_blocks_) fail(fiber, "uses the shared memory of a block that is not in its cluster");
    block = fiber.block / group.cluster_blocks_ * group.cluster_blocks_ + rank - 1;
  }
  void* const object = group.shared_.at(block, address & ((1u << rank_shift) - 1), bytes);
  if (object == nullptr)
    fail(fiber, "accesses " + std::to_string(bytes) + " bytes at address " + std::to_string(address) +
                    " that are not in shared memory");
  return object;
}

// ---- To shared memory ---------------------------------------------------------------------------------------------------

bool ResidentGroup::completes(TransactionBarrier& barrier, std::uint32_t parity) noexcept {
  for (auto flight = flights_.begin(); barrier.parity() == parity && flight != flights_.end();) {
    if (flight->barrier != &barrier) {
      ++flight;
      continue;
    }
    for (std::size_t i = 0; i < flight->data.size(); i += unit) {
      const std::uint32_t place = swizzled(flight->address + static_cast<std::uint32_t>(i), flight->swizzle_bytes);
      std::memcpy(flight->to + (place - flight->address), flight->data.data() + i, unit);
    }
    barrier.state -= 2 * static_cast<std::int32_t>(flight->data.size());
    barrier.complete_if_done();
    flight = flights_.erase(flight);
  }
  return barrier.parity() != parity;
}

void ResidentGroup::bulk_copy(abi::Thread& thread, unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  Fiber& fiber = fiber_of(thread);
  if (bytes % unit != 0 || to % unit != 0)
    fail(fiber,
         "copies " + std::to_string(bytes) + " bytes to address " + std::to_string(to) + "; both must be multiples of 16");
  TransactionBarrier& counts = barrier_at(fiber, barrier);
  auto* const place = static_cast<unsigned char*>(shared_pointer(thread, to, bytes));
  Flight& flight = fiber.group->flights_.emplace_back();
  flight.barrier = &counts;
  flight.to = place;
  flight.address = to;
  flight.swizzle_bytes = 0;
  flight.data.resize(bytes);
  std::memcpy(flight.data.data(), from, bytes);
  std::memset(place, 0xff, bytes);
}

TensorMap ResidentGroup::tensor_map_at(Fiber& fiber, const void* map, int rank) {
  TensorMap found;
  std::memcpy(&found, map, sizeof found);
  if (found.mark != TensorMap::valid) fail(fiber, "uses the tensor map of an array that is missing");
  if (found.rank != rank)
    fail(fiber, "names " + std::to_string(rank) + " coordinates of a tensor map of " + std::to_string(found.rank));
  return found;
}

void ResidentGroup::load_tile(abi::Thread& thread, unsigned to, const void* map, unsigned barrier, const int* at, int rank) {
  Fiber& fiber = fiber_of(thread);
  const TensorMap found = tensor_map_at(fiber, map, rank);
  if (to % 128 != 0) fail(fiber, "loads a tile to address " + std::to_string(to) + "; it must be a multiple of 128");
  TransactionBarrier& counts = barrier_at(fiber, barrier);
  const std::size_t bytes = found.box_bytes();
  auto* const place = static_cast<unsigned char*>(shared_pointer(thread, to, static_cast<unsigned>(bytes)));
  Flight& flight = fiber.group->flights_.emplace_back();
  flight.barrier = &counts;
  flight.to = place;
  flight.address = to;
  flight.swizzle_bytes = found.swizzle_bytes;
  flight.data.resize(bytes);  // zeros, which elements out of bounds keep
  bool outside = true;
  for (std::size_t i = 0; i < found.rows(); ++i) {
    const TensorMap::Row row = found.row(i, at);
    if (row.inside == 0) continue;
    outside = false;
    std::memcpy(flight.data.data() + i * found.row_bytes() + static_cast<std::size_t>(row.first) * found.element_bytes,
                row.elements, static_cast<std::size_t>(row.inside) * found.element_bytes);
  }
  if (outside && found.begins_before)
    fail(fiber, "loads a tile that is wholly out of bounds of a tensor map that begins before its array");
  std::memset(place, 0xff, bytes);
}

// ---- To global memory ---------------------------------------------------------------------------------------------------

void ResidentGroup::store_tile(abi::Thread& thread, const void* map, unsigned from, const int* at, int rank, bool adds) {
  Fiber& fiber = fiber_of(thread);
  const TensorMap found = tensor_map_at(fiber, map, rank);
  if (from % 128 != 0) fail(fiber, "stores a tile from address " + std::to_string(from) + "; it must be a multiple of 128");
  const std::size_t bytes = found.box_bytes();
  const void* const place = shared_pointer(thread, from, static_cast<unsigned>(bytes));
  BulkStore& store = fiber.stores.emplace_back();
  store.map = found;
  std::copy_n(at, rank, store.at.begin());
  store.floats = nullptr;
  store.from = static_cast<const unsigned char*>(place);
  store.issued.assign(store.from, store.from + bytes);
  store.address = from;
  store.group = fiber.store_groups;
  store.adds = adds;
}

void ResidentGroup::bulk_store(abi::Thread& thread, float* to, unsigned from, unsigned bytes, bool adds) {
  Fiber& fiber = fiber_of(thread);
  if (bytes % unit != 0 || from % unit != 0)
    fail(fiber, (adds ? "adds " : "stores ") + std::to_string(bytes) + " bytes from address " + std::to_string(from) +
                    "; both must be multiples of 16");
  const void* const place = shared_pointer(thread, from, bytes);
  BulkStore& store = fiber.stores.emplace_back();
  store.floats = to;
  store.adds = adds;
  store.from = static_cast<const unsigned char*>(place);
  store.issued.assign(store.from, store.from + bytes);
  store.group = fiber.store_groups;
}

void ResidentGroup::add_floats(float* to, const float* values, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    float before, after;
    __atomic_load(to + i, &before, __ATOMIC_RELAXED);
    do after = before + values[i];
    while (!__atomic_compare_exchange(to + i, &before, &after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  }
}

void ResidentGroup::write(const BulkStore& store) {
  if (store.floats != nullptr) {
    const std::size_t bytes = store.issued.size();
    if (store.adds)
      add_floats(store.floats, reinterpret_cast<const float*>(store.from), static_cast<unsigned>(bytes / sizeof(float)));
    else
      std::memcpy(store.floats, store.from, bytes);
    return;
  }
  static std::mutex additions;  // of all groups, which may add to the same elements
  const TensorMap& map = store.map;
  std::vector<std::byte> data(map.row_bytes());
  for (std::size_t i = 0; i < map.rows(); ++i) {
    const TensorMap::Row row = map.row(i, store.at.data());
    if (row.inside == 0) continue;
    for (std::size_t at = 0; at < data.size(); at += unit) {
      const auto offset = static_cast<std::uint32_t>(i * data.size() + at);
      const std::uint32_t place = swizzled(store.address + offset, map.swizzle_bytes);
      std::memcpy(data.data() + at, store.from + (place - store.address), unit);
    }
    if (!store.adds) {
      // As seen on an H200, a store completes the last 16 bytes of a row (LaunchPlan::TensorMap).
      const std::size_t first = static_cast<std::size_t>(row.first) * map.element_bytes;
      const std::size_t end =
          (static_cast<std::size_t>(row.first + row.inside) * map.element_bytes + unit - 1) / unit * unit;
      std::memcpy(row.elements, data.data() + first, end - first);
      continue;
    }
    const std::lock_guard lock(additions);
    for (std::int64_t element = 0; element < row.inside; ++element)
      write_element(
          map.dtype, row.elements, element,
          read_element(map.dtype, row.elements, element) + read_element(map.dtype, data.data(), row.first + element));
  }
}

void ResidentGroup::store_commit(abi::Thread& thread) { ++fiber_of(thread).store_groups; }

void ResidentGroup::store_wait(abi::Thread& thread, unsigned pending) {
  Fiber& fiber = fiber_of(thread);
  const std::uint32_t landed_groups = fiber.store_groups - std::min(fiber.store_groups, pending);
  if (!fiber.stores.empty() && fiber.stores.front().group < landed_groups) fiber.group->poll(fiber, Wait::store_wait);
  auto at = fiber.stores.begin();
  for (; at != fiber.stores.end() && at->group < landed_groups; ++at) {
    if (!std::equal(at->issued.begin(), at->issued.end(), at->from))
      fail(fiber, "issues a bulk store of shared memory that changes before the store has read it");
    write(*at);
  }
  fiber.stores.erase(fiber.stores.begin(), at);
}

}  // namespace tunesmith::host
