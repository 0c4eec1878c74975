// tunesmith cache: shows, checks, copies and cleans the cache file.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>

#include "api/cli/arguments/errors.h"
#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/operations.h"
#include "api/cli/cache/current_version.h"
#include "api/cli/cache/prune.h"
#include "api/cli/cache/record_lines.h"
#include "api/cli/cache/recorded.h"
#include "api/cli/cache/views.h"
#include "api/cli/commands/cache_remote.h"
#include "api/cli/commands/commands.h"
#include "api/cli/page/gather.h"
#include "templates/render.h"

namespace tunesmith::cli {
namespace {

struct CacheFlags {
  EngineFlags engine;
  bool json = false;
  bool all = false;  // list, show
  std::string op;
  std::string index;                 // show
  bool source = false;               // show
  bool without_binaries = false;     // export
  bool records = false;              // export
  bool binaries_only = false;        // clear
  std::string target;                // export
  std::vector<std::string> files;    // import, merge
  std::int64_t older_than_days = 0;  // prune; 0: not given
  std::int64_t max_size_mib = 0;     // prune; 0: not given
  bool dry_run = false;              // prune

  /// The options of the engine's flags, without shipped records unless --all: hundreds of them would hide the others.
  EngineOptions listed() const {
    EngineOptions options = engine.options();
    if (!all) options.shipped_cache.clear();
    return options;
  }
};

void print_json(const Json& json) { std::puts(dump_pretty(json).c_str()); }

std::vector<TuningRecord> records_of(Cache& cache, const std::string& op) {
  std::vector<TuningRecord> records = cache.list_records();
  if (!op.empty()) {
    operation(op);  // an unknown name is an error, not an empty list
    std::erase_if(records, [&](const TuningRecord& record) { return record.key.op != op; });
  }
  return records;
}

int info(const CacheFlags& flags) {
  const CacheInfo found = open_cache(flags.engine.options())->info();
  if (flags.json)
    print_json(to_json(found));
  else
    std::fputs(info_listing(found).c_str(), stdout);
  return exit_done;
}

int list(const CacheFlags& flags) {
  const std::shared_ptr<Cache> cache = open_cache(flags.listed());
  const std::vector<TuningRecord> records = records_of(*cache, flags.op);
  CurrentVersion version(flags.listed());
  if (flags.json) {
    Json json = Json::array();
    for (const TuningRecord& record : records) json.push_back(to_json(record, version));
    print_json({{"cache", cache->info().file.string()}, {"records", json}});
  } else {
    std::fputs(records_table(records, version).c_str(), stdout);
  }
  return exit_done;
}

TuningRecord pick_record(Cache& cache, const CacheFlags& flags) {
  const std::vector<TuningRecord> records = records_of(cache, flags.op);
  std::size_t number = 0;
  const char* const end = flags.index.data() + flags.index.size();
  const auto [rest, failure] = std::from_chars(flags.index.data(), end, number);
  if (records.empty())
    throw Error(ErrorCode::not_found, "the cache has no records", flags.op.empty() ? "" : " of " + flags.op,
                flags.all ? "" : "; --all includes the records that ship with Tunesmith");
  if (failure != std::errc() || rest != end || number < 1 || number > records.size())
    throw Error(ErrorCode::invalid_argument, "record is '", flags.index, "'; expected a number from 1 to ", records.size(),
                " as `tunesmith cache list` shows them");
  return records[number - 1];
}

int show(const CacheFlags& flags) {
  const EngineOptions options = flags.listed();
  const std::shared_ptr<Cache> cache = open_cache(options);
  const TuningRecord record = pick_record(*cache, flags);
  std::string source;
  if (flags.source) source = render(*recorded_problem(record), recorded_config(record), open_templates(options));
  const std::vector<Trial> trials = cache->find_trials(record.key);
  CurrentVersion version(options);
  if (flags.json) {
    Json json = to_json(record, version);
    json["trials"] = Json::array();
    for (const Trial& trial : trials) json["trials"].push_back(to_json(trial));
    if (flags.source) json["source"] = source;
    print_json(json);
  } else if (flags.source) {
    std::fwrite(source.data(), 1, source.size(), stdout);
  } else {
    std::printf("%s\n%s", record_listing(record, version).c_str(), trials_table(trials).c_str());
  }
  return exit_done;
}

int report(const CacheFlags& flags) {
  const EngineOptions options = flags.listed();
  const std::shared_ptr<Cache> cache = open_cache(options);
  const TuningRecord record = pick_record(*cache, flags);
  write_page(gather(record, *open_cache(flags.engine.options()), options), flags.target);
  std::printf("wrote %s\n", flags.target.c_str());
  return exit_done;
}

int verify(const CacheFlags& flags) {
  const std::shared_ptr<Cache> cache = open_cache(flags.engine.options());
  const std::vector<std::string> problems = cache->verify();
  const CacheInfo found = cache->info();
  if (flags.json) {
    print_json({{"cache", found.file.string()}, {"healthy", problems.empty()}, {"problems", problems}});
  } else {
    for (const std::string& problem : problems) std::printf("%s\n", problem.c_str());
    std::printf("%s: %lld records, %lld trials, %lld binaries, %lld sources\n", problems.empty() ? "healthy" : "remaining",
                static_cast<long long>(found.records), static_cast<long long>(found.trials),
                static_cast<long long>(found.binaries), static_cast<long long>(found.sources));
  }
  if (!problems.empty())
    throw Error(ErrorCode::cache_failed, "'", found.file.string(), "' had ", problems.size(),
                problems.size() == 1 ? " problem" : " problems", "; damaged rows were removed");
  return exit_done;
}

/// The records of these templates, without the shipped ones.
int export_records(const CacheFlags& flags) {
  EngineOptions own = flags.engine.options();
  own.system_caches.clear();
  own.shipped_cache.clear();
  std::vector<TuningRecord> records = open_cache(own)->list_records();
  CurrentVersion version(own);
  const std::size_t others =
      std::erase_if(records, [&](const TuningRecord& record) { return version.use_of(record) != name(Origin::exact); });
  write_lines(records, flags.target);
  std::printf("wrote %s: %zu records, %lld bytes", flags.target.c_str(), records.size(),
              static_cast<long long>(std::filesystem::file_size(flags.target)));
  if (others > 0) std::printf("; %zu omitted, which are not of these templates", others);
  std::printf("\n");
  return exit_done;
}

int export_cache(const CacheFlags& flags) {
  if (flags.records) return export_records(flags);
  const std::shared_ptr<Cache> cache = open_cache(flags.engine.options());
  cache->export_to(flags.target, !flags.without_binaries);
  std::printf("wrote %s\n", flags.target.c_str());
  return exit_done;
}

int import_cache(const CacheFlags& flags) {
  for (const std::string& file : flags.files)
    if (!std::filesystem::exists(file))
      throw Error(ErrorCode::not_found, "'", file, "' does not exist; expected a cache file");
  const std::shared_ptr<Cache> cache = open_cache(flags.engine.options());
  for (const std::string& file : flags.files) {
    const std::int64_t taken = holds_lines(file) ? cache->import_records(read_lines(file)) : cache->import_from(file);
    std::printf("%lld rows imported from %s\n", static_cast<long long>(taken), file.c_str());
  }
  return exit_done;
}

int clear(const CacheFlags& flags) {
  if (!flags.op.empty()) operation(flags.op);
  const std::shared_ptr<Cache> cache = open_cache(flags.engine.options());
  std::printf("%lld rows removed\n", static_cast<long long>(cache->clear({flags.op, flags.binaries_only})));
  return exit_done;
}

int prune(const CacheFlags& flags) {
  PruneSettings settings;
  if (flags.older_than_days > 0) settings.older_than_days = static_cast<int>(flags.older_than_days);
  if (flags.max_size_mib > 0) settings.max_bytes = flags.max_size_mib << 20;
  settings.dry_run = flags.dry_run;
  settings.json = flags.json;
  return prune_cache(flags.engine.options(), settings);
}

CLI::App* add(CLI::App* parent, const char* name, const char* help, const std::shared_ptr<CacheFlags>& flags, Parse& parse,
              int (*work)(const CacheFlags&)) {
  CLI::App* command = parent->add_subcommand(name, help);
  flags->engine.add_cache(*command);
  command->callback([&parse, flags, work] { parse.action = [flags, work] { return work(*flags); }; });
  return command;
}

void add_op(CLI::App* command, CacheFlags& flags) {
  command->add_option("--op", flags.op, "only this operation")->type_name("OP");
}

void add_all(CLI::App* command, CacheFlags& flags) {
  command->add_flag("--all", flags.all, "include the records that ship with Tunesmith");
}

void add_json(CLI::App* command, CacheFlags& flags) {
  command->add_flag("--json", flags.json, "print one JSON value, nothing else");
}

}  // namespace

void add_cache(CLI::App& app, Parse& parse) {
  CLI::App* cache = app.add_subcommand("cache", "show, check, copy and clean the cache file");
  cache->require_subcommand(1);
  auto flags = std::make_shared<CacheFlags>();
  add_json(add(cache, "info", "show where the cache is and what it holds", flags, parse, info), *flags);

  CLI::App* command = add(cache, "list", "list the tuning records with their numbers", flags, parse, list);
  add_op(command, *flags);
  add_all(command, *flags);
  add_json(command, *flags);

  command = add(cache, "show", "show one record with its trials", flags, parse, show);
  command->add_option("record", flags->index, "number of the record in `cache list` (with the same --op and --all)")
      ->required()
      ->type_name("N");
  command->add_flag("--source", flags->source, "print the source of its configuration instead");
  add_op(command, *flags);
  add_all(command, *flags);
  add_json(command, *flags);

  command = add(cache, "report", "write a page about one record: charts, rejected candidates, generated source", flags,
                parse, report);
  command->add_option("record", flags->index, "number of the record in `cache list` (with the same --op and --all)")
      ->required()
      ->type_name("N");
  command->add_option("--html", flags->target, "file to write")->required()->type_name("FILE");
  add_op(command, *flags);
  add_all(command, *flags);

  add_json(add(cache, "verify", "check the file and every row, and remove damaged rows", flags, parse, verify), *flags);

  command = add(cache, "export", "write a compact copy, for use as a system cache", flags, parse, export_cache);
  command->add_option("to", flags->target, "file to write; must not exist")->required()->type_name("FILE");
  command->add_flag("--without-binaries", flags->without_binaries, "write tuning records only");
  command->add_flag("--records", flags->records, "write the records of these templates as JSON lines (*.jsonl)");

  for (const auto& [name, meaning] : {std::pair{"import", "add what is new or newer in other cache files"},
                                      std::pair{"merge", "another name of import"}}) {
    command = add(cache, name, meaning, flags, parse, import_cache);
    command->add_option("from", flags->files, "files to read: caches, or records as JSON lines (*.jsonl)")
        ->required()
        ->type_name("FILE...");
  }

  command =
      add(cache, "prune", "remove superseded records, and binaries of other templates or toolchains", flags, parse, prune);
  add_number(*command, "--older-than", flags->older_than_days, 1, 100'000,
             "also remove binaries stored more than this many days ago")
      ->type_name("DAYS");
  add_number(*command, "--max-size", flags->max_size_mib, 1, 1 << 30,
             "then remove the oldest binaries until the file is no larger than this")
      ->type_name("MIB");
  command->add_flag("--dry-run", flags->dry_run, "remove nothing, only list what would be removed");
  add_json(command, *flags);

  command = add(cache, "clear", "remove records and binaries", flags, parse, clear);
  add_op(command, *flags);
  command->add_flag("--binaries-only", flags->binaries_only, "keep the tuning records");
  add_cache_remote(*cache, parse);
  cache->footer(
      "Examples:\n"
      "  tunesmith cache list --op softmax\n"
      "  tunesmith cache export service.db && TUNESMITH_SYSTEM_CACHE=service.db ./server");
}

}  // namespace tunesmith::cli
