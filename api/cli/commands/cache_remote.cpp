#include "api/cli/commands/cache_remote.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include "api/cli/arguments/errors.h"
#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/remote_flag.h"
#include "api/cli/tuning/tune_child.h"
#include "fleet/counters.h"
#include "fleet/protocol/transfer.h"
#include "fleet/remote.h"
#include "fleet/signing.h"

namespace tunesmith::cli {
namespace {

namespace fs = std::filesystem;

struct RemoteFlags {
  EngineFlags engine;
  RemoteFlag remote;
  bool without_binaries = false, replace = false;  // push
  std::string generation;                          // push
  std::string file, name;                          // keys
  bool prometheus = false, json = false;           // stats

  /// Opens the cache file without the remote cache, so that copied entries are not looked up or published there again.
  std::shared_ptr<Cache> open_local() const {
    EngineOptions options = engine.options();
    options.remote.clear();
    if (options.cache_file.empty())
      throw Error(ErrorCode::invalid_argument, "no cache file; expected --cache FILE or TUNESMITH_CACHE");
    return open_cache(options);
  }
};

fleet::Transferred push_all(const RemoteFlags& flags, const fleet::RemoteUrl& url, Cache& cache) {
  const fleet::Transferred done = fleet::push(url, cache, {!flags.without_binaries, flags.replace, flags.generation});
  std::printf("pushed %lld tunings and %lld binaries to %s; %lld were there\n", static_cast<long long>(done.tunings),
              static_cast<long long>(done.binaries), url.address().c_str(), static_cast<long long>(done.kept));
  if (!flags.generation.empty()) std::printf("made generation %s\n", flags.generation.c_str());
  return done;
}

fleet::Transferred pull_all(const fleet::RemoteUrl& url, Cache& cache) {
  const fleet::Transferred done = fleet::pull(url, cache);
  std::printf("pulled %lld tunings and %lld binaries from %s, %lld bytes\n", static_cast<long long>(done.tunings),
              static_cast<long long>(done.binaries), url.address().c_str(), static_cast<long long>(done.bytes));
  if (done.refused > 0)
    std::printf("%lld values were not used: damaged, swapped or not signed by a trusted key\n",
                static_cast<long long>(done.refused));
  return done;
}

int push(const RemoteFlags& flags) {
  const fleet::RemoteUrl url = flags.remote.url();
  push_all(flags, url, *flags.open_local());
  return exit_done;
}

int pull(const RemoteFlags& flags) {
  const fleet::RemoteUrl url = flags.remote.url();
  return pull_all(url, *flags.open_local()).refused == 0 ? exit_done : exit_failed;
}

int sync(const RemoteFlags& flags) {
  const fleet::RemoteUrl url = flags.remote.url();
  const std::shared_ptr<Cache> cache = flags.open_local();
  push_all(flags, url, *cache);
  return pull_all(url, *cache).refused == 0 ? exit_done : exit_failed;
}

int new_key(const RemoteFlags& flags) {
  const fs::path public_file = flags.file + ".pub";
  if (fs::exists(public_file)) throw Error(ErrorCode::io, "'", public_file.string(), "' exists; choose another name");
  const fleet::SigningKey key = fleet::SigningKey::generate();
  key.write(flags.file);
  const std::string name = flags.name.empty() ? fs::path(flags.file).filename().string() : flags.name;
  std::ofstream stream(public_file);
  stream << fleet::trust_line(key.public_key(), name) << "\n";
  stream.close();
  if (!stream) throw Error(ErrorCode::io, "'", public_file.string(), "' cannot be written");
  std::printf("wrote %s (private: for hosts that tune) and %s (public: for trust files), key %s\n", flags.file.c_str(),
              public_file.c_str(), fleet::key_id(key.public_key()).c_str());
  return exit_done;
}

int show_keys(const RemoteFlags& flags) {
  for (const std::string& key : fleet::read_trust(flags.file)) std::printf("%s\n", fleet::key_id(key).c_str());
  return exit_done;
}

int stats(const RemoteFlags& flags) {
  const fleet::Counts counts = fleet::read_counts(fleet::counters_file(flags.engine.options().cache_file));
  if (flags.prometheus) {
    std::fputs(fleet::prometheus_text(counts).c_str(), stdout);
  } else if (flags.json) {
    std::puts(dump_pretty(Json(counts)).c_str());
  } else {
    if (counts.empty()) std::puts("nothing was counted: no process with this cache file has used a remote cache");
    for (const auto& [name, count] : counts)
      if (!name.starts_with("lookup_us")) std::printf("%-44s %llu\n", name.c_str(), static_cast<unsigned long long>(count));
  }
  return exit_done;
}

CLI::App* add(CLI::App& parent, const char* name, const char* help, const std::shared_ptr<RemoteFlags>& flags, Parse& parse,
              int (*work)(const RemoteFlags&)) {
  CLI::App* const command = parent.add_subcommand(name, help);
  command->callback([&parse, flags, work] { parse.action = [flags, work] { return work(*flags); }; });
  return command;
}

}  // namespace

void add_cache_remote(CLI::App& cache, Parse& parse) {
  const auto flags = std::make_shared<RemoteFlags>();
  CLI::App* command =
      add(cache, "push", "write this cache's tunings and signed binaries to a remote cache", flags, parse, push);
  command->add_flag("--without-binaries", flags->without_binaries, "write tunings only");
  command->add_flag("--replace", flags->replace, "overwrite what is there; by default, the first tuning of a key stays");
  command->add_option("--generation", flags->generation, "also make a signed generation: all tunings, to be pinned by name")
      ->type_name("NAME");
  flags->remote.add_to(*command);
  flags->engine.add_cache(*command);

  command = add(cache, "pull", "copy the tunings and signed binaries of a remote cache to this one", flags, parse, pull);
  flags->remote.add_to(*command);
  flags->engine.add_cache(*command);

  command = add(cache, "sync", "push, then pull; also renews what would expire", flags, parse, sync);
  flags->remote.add_to(*command);
  flags->engine.add_cache(*command);

  CLI::App* const keys = cache.add_subcommand("keys", "make and show the keys that sign values of a remote cache");
  keys->require_subcommand(1);
  command = add(*keys, "new", "make a key: FILE is private, FILE.pub is public", flags, parse, new_key);
  command->add_option("file", flags->file, "file to write; must not exist")->required()->type_name("FILE");
  command->add_option("--name", flags->name, "comment in the public file (default: the file's name)")->type_name("NAME");
  command = add(*keys, "show", "show the keys of a trust file", flags, parse, show_keys);
  command->add_option("file", flags->file, "trust file: lines of *.pub files")->required()->type_name("FILE");

  command = add(cache, "stats", "show what all processes with this cache file did with a remote cache", flags, parse, stats);
  flags->engine.add_cache(*command);
  command->add_flag("--prometheus", flags->prometheus, "print the text format of Prometheus");
  command->add_flag("--json", flags->json, "print one JSON value, nothing else");
}

}  // namespace tunesmith::cli
