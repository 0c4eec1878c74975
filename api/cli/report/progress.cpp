#include "api/cli/report/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "api/cli/report/table.h"

namespace tunesmith::cli {
namespace {

constexpr auto redraw_every = std::chrono::milliseconds(150);
constexpr auto heartbeat_every = std::chrono::seconds(3);

std::size_t terminal_columns() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(std::string title) : title_(std::move(title)), terminal_(isatty(STDERR_FILENO) != 0) {
  thread_ = std::thread([this] { show(); });
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (terminal_ && shown_) std::fputs("\r\x1b[K", stderr);
}

void Progress::update(int done, int total, const std::string& what) {
  const std::lock_guard lock(mutex_);
  done_ = done;
  total_ = total;
  what_ = what;
}

std::string Progress::line(std::size_t bar_width) const {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  std::string text = title_;
  if (total_ > 0) {
    if (bar_width > 0) {
      const std::size_t filled =
          bar_width * static_cast<std::size_t>(std::clamp(done_, 0, total_)) / static_cast<std::size_t>(total_);
      text += " [" + std::string(filled, '#') + std::string(bar_width - filled, '-') + "]";
    }
    text += " " + std::to_string(done_) + "/" + std::to_string(total_);
  }
  text += ", " + fixed(seconds, 0) + " s";
  if (!what_.empty()) text += ", " + what_;
  return text;
}

void Progress::show() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, terminal_ ? redraw_every : std::chrono::milliseconds(heartbeat_every),
                            [this] { return finished_; })) {
    std::string text = line(terminal_ ? 24 : 0);
    if (terminal_) {
      text.resize(std::min(text.size(), terminal_columns() - 1));  // a wrapped line could not be cleared
      std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
    } else {
      std::fprintf(stderr, "tunesmith: %s\n", text.c_str());
    }
    std::fflush(stderr);
    shown_ = true;
  }
}

}  // namespace tunesmith::cli
