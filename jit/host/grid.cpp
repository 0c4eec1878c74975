#include "jit/host/grid.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <sstream>
#include <system_error>
#include <thread>

namespace tunesmith::host {
namespace {

constexpr std::uint64_t max_cluster_blocks = 16;  // 8 is portable; kernels may opt in to 16 on H100

std::string text(const Dim3& dim) {
  std::ostringstream out;
  out << "(" << dim.x << "," << dim.y << "," << dim.z << ")";
  return out.str();
}

// Splits the grid into groups of blocks that are resident together, in the order of their ranks.
class Partition {
 public:
  explicit Partition(const LaunchShape& shape) : shape_(shape) {
    clusters_ = {shape.grid.x / shape.cluster.x, shape.grid.y / shape.cluster.y, shape.grid.z / shape.cluster.z};
  }

  std::uint64_t groups() const { return shape_.cooperative ? 1 : clusters_.count(); }
  std::size_t blocks_per_group() const {
    return static_cast<std::size_t>(shape_.cooperative ? shape_.grid.count() : shape_.cluster.count());
  }

  void list_blocks(std::uint64_t group, std::vector<Dim3>& blocks) const {
    blocks.clear();
    if (!shape_.cooperative) return list_cluster(group, blocks);
    for (std::uint64_t cluster = 0; cluster < clusters_.count(); ++cluster) list_cluster(cluster, blocks);
  }

 private:
  void list_cluster(std::uint64_t cluster, std::vector<Dim3>& blocks) const {
    const Dim3& extent = shape_.cluster;
    const auto cx = static_cast<std::uint32_t>(cluster % clusters_.x * extent.x);
    const auto cy = static_cast<std::uint32_t>(cluster / clusters_.x % clusters_.y * extent.y);
    const auto cz = static_cast<std::uint32_t>(cluster / clusters_.x / clusters_.y * extent.z);
    for (std::uint32_t z = 0; z < extent.z; ++z)
      for (std::uint32_t y = 0; y < extent.y; ++y)
        for (std::uint32_t x = 0; x < extent.x; ++x) blocks.push_back({cx + x, cy + y, cz + z});
  }

  const LaunchShape& shape_;
  Dim3 clusters_;
};

// State that the operating system threads of one launch share.
class Launch {
 public:
  Launch(GroupPool& pool, const LaunchShape& shape, const abi::Entry& entry, const void* params)
      : pool_(pool),
        shape_(shape),
        entry_(entry),
        params_(params),
        partition_(shape),
        threads_(static_cast<std::size_t>(std::min<std::uint64_t>(pool.workers(), partition_.groups()))),
        waits_(threads_) {}

  void run() {
    {
      std::vector<std::jthread> others;
      others.reserve(threads_ - 1);
      try {
        while (others.size() + 1 < threads_) others.emplace_back([this] { work(); });
      } catch (const std::system_error&) {
        // Continue with the threads that could be started.
        for (std::size_t started = others.size() + 1; started < threads_; ++started) waits_.leave();
      }
      work();
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void work() {
    std::uint64_t group_index = 0;
    try {
      std::unique_ptr<ResidentGroup> group = pool_.take();
      group->prepare(shape_, entry_, partition_.blocks_per_group());
      std::vector<Dim3> blocks;
      try {
        while (!stopped_ && (group_index = next_.fetch_add(1)) < partition_.groups()) {
          partition_.list_blocks(group_index, blocks);
          group->run(blocks, params_, waits_);
        }
      } catch (...) {
        record(group_index);
      }
      pool_.give(std::move(group));
    } catch (...) {
      record(group_index);
    }
    waits_.leave();
  }

  void record(std::uint64_t group_index) {
    stopped_ = true;
    const std::lock_guard lock(mutex_);
    if (failure_ && failed_group_ < group_index) return;
    failure_ = std::current_exception();
    failed_group_ = group_index;
  }

  GroupPool& pool_;
  const LaunchShape& shape_;
  const abi::Entry& entry_;
  const void* const params_;
  const Partition partition_;
  const std::size_t threads_;
  CountWaits waits_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::uint64_t failed_group_ = 0;
};

}  // namespace

std::string why_not_launchable(const KernelLaunch& launch, const DeviceInfo& device) {
  std::ostringstream why;
  const auto cluster_blocks = launch.cluster.count();
  const auto max_resident_threads =
      static_cast<std::uint64_t>(device.sm_count) * static_cast<std::uint64_t>(device.max_threads_per_sm);
  if (launch.grid.count() == 0 || launch.grid.x > 0x7fffffffu || launch.grid.y > 65535 || launch.grid.z > 65535)
    why << "a grid of " << text(launch.grid) << " blocks; allowed: 1 to (2147483647,65535,65535)";
  else if (launch.block.count() == 0 || launch.block.count() > static_cast<std::uint64_t>(device.max_threads_per_block))
    why << "a block of " << text(launch.block) << " threads; allowed: 1 to " << device.max_threads_per_block;
  else if (launch.block.z > 64)
    why << "a block of " << text(launch.block) << " threads; allowed in z: at most 64";
  else if (launch.dynamic_smem_bytes < 0 || launch.dynamic_smem_bytes > device.smem_bytes_per_block)
    why << "dynamic shared memory of " << launch.dynamic_smem_bytes << " bytes; allowed: 0 to "
        << device.smem_bytes_per_block;
  else if (cluster_blocks == 0 || cluster_blocks > max_cluster_blocks)
    why << "a cluster of " << text(launch.cluster) << " blocks; allowed: 1 to " << max_cluster_blocks;
  else if (launch.grid.x % launch.cluster.x != 0 || launch.grid.y % launch.cluster.y != 0 ||
           launch.grid.z % launch.cluster.z != 0)
    why << "a grid of " << text(launch.grid) << " blocks; allowed: multiples of the cluster " << text(launch.cluster);
  else if (launch.cooperative && launch.grid.count() * launch.block.count() > max_resident_threads)
    why << "a cooperative grid of " << launch.grid.count() * launch.block.count() << " threads; at most "
        << max_resident_threads << " can be resident";
  return why.str();
}

std::unique_ptr<ResidentGroup> GroupPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<ResidentGroup> group = std::move(idle_.back());
      idle_.pop_back();
      return group;
    }
  }
  return std::make_unique<ResidentGroup>(stack_shift_);
}

void GroupPool::give(std::unique_ptr<ResidentGroup> group) {
  const std::lock_guard lock(mutex_);
  if (idle_.size() < workers_) idle_.push_back(std::move(group));
}

void run_grid(GroupPool& pool, const LaunchShape& shape, const abi::Entry& entry, const void* params) {
  Launch(pool, shape, entry, params).run();
}

}  // namespace tunesmith::host
